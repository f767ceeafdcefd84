"""Compare another implementation of a method with fedatlas's: where do they first deviate?

What our method draws in a round is written down and given to the other side, which computes the
same round in numbers of its own. Compared are quantities by name, as the fields of our state are
called. A certificate (tests/certificates) is such an other side, written from a paper alone.
"""
