"""Parties that are processes: each holds its own columns only and talks to others by messages.

`backend: processes` in an experiment. What is simulated in `federations.vertical` is done here, by
the same rules and the same secure sum; docs/parties.md says how to run it.
"""
