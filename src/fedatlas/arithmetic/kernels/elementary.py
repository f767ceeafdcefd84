"""exp, log, log1p and powers, compiled: the same bits on every processor, to within 1 ulp.

The C library has several of each and takes the fastest that the processor knows, with fused
multiplications or without, which round otherwise; numpy has more. Here every operation is rounded
by itself, as numba fuses none.

Both are by tables and short polynomials (Tang 1989 and 1990, ACM TOMS 15, 144 and 16, 378): e^x is
2^k 2^(j/128) e^r with |r| ≤ ln 2/256, and log(2^k m) is k ln 2 − log c + log(1 + r) with a short c
near 1/m and r = c m − 1, all but exact.
"""

import math
from decimal import Decimal, localcontext

import numpy as np

from fedatlas.arithmetic.kernels.compilation import compiled

# Of float64: the bits of its fraction, and what is added to exponents.
_FRACTION, _BIAS = 52, 1023
_STEPS, _STEP_BITS = 128, 7
_TO_WHOLE = 1.5 * 2.0**52  # added and taken off again, it rounds to whole numbers
_LAST_BITS = np.int64(_STEPS - 1)  # the last bits of a number of steps
_TINY, _SMALLEST = 2.0**-54, 2.0**-1022

# m lies in [0.703125, 1.40625): so many intervals, each of so many fractions as any other.
_FIRST = np.float64(0.703125).view(np.int64)
_INTERVAL_BITS = _FRACTION - _STEP_BITS


def _centre(interval: int) -> float:
    """The middle of an interval; 1 of the two that end there, where log m vanishes."""
    first, last = (
        float((_FIRST + (np.int64(end) << _INTERVAL_BITS)).view(np.float64))
        for end in (interval, interval + 1)
    )
    return 1.0 if 1.0 in (first, last) else (first + last) / 2


def _parts(number: Decimal) -> tuple[float, float]:
    """A number in two parts, the first a multiple of 2^−42: short enough to be multiplied."""
    high = float(int(number * 2**42)) / 2**42
    return high, float(number - Decimal(high))


with localcontext(prec=40):
    _LN2 = Decimal(2).ln()
    _PER_STEP = float(_STEPS / _LN2)
    _STEP_HIGH, _STEP_LOW = _parts(_LN2 / _STEPS)
    _LN2_HIGH, _LN2_LOW = _STEPS * _STEP_HIGH, _STEPS * _STEP_LOW
    _STEP = (_LN2 / _STEPS).exp()
    _ROOTS = [_STEP**step for step in range(_STEPS)]
    _HEADS = np.array([float(root) for root in _ROOTS])
    _TAILS = np.array([float(root - Decimal(float(root))) for root in _ROOTS])
    # c has 8 bits behind the point, so that products with m − its centre are exact.
    _CENTRES = np.array([_centre(interval) for interval in range(_STEPS)])
    _INVERSES = np.rint(256 / _CENTRES) / 256
    _OFFSETS = _CENTRES * _INVERSES - 1
    _LOGS = np.array([_parts(-Decimal(c).ln()) for c in _INVERSES.tolist()])
_LOG_HEADS, _LOG_TAILS = np.ascontiguousarray(_LOGS.T)


@compiled(inline="always")
def exp(x):
    """e^x of a float."""
    if not abs(x) < 700.0:
        return _far_exp(x)
    value, exponent = _by_steps(x)
    return value * _power_of_two(exponent)


@compiled(allocates=False)
def _far_exp(x):
    """The same of what may be NaN, or too large or too small for one power of two."""
    if x != x:
        return x
    value, exponent = _by_steps(min(max(x, -800.0), 800.0))
    half = exponent >> 1
    return value * _power_of_two(half) * _power_of_two(exponent - half)


@compiled(inline="always")
def _by_steps(x):
    """e^x = value · 2^exponent with a value about 1."""
    steps = (x * _PER_STEP + _TO_WHOLE) - _TO_WHOLE
    r = (x - steps * _STEP_HIGH) - steps * _STEP_LOW
    rest = r + r * r * (1 / 2 + r * (1 / 6 + r * (1 / 24 + r * (1 / 120))))
    number = np.int64(steps)
    j = np.uint64(number & _LAST_BITS)
    return _HEADS[j] + (_TAILS[j] + _HEADS[j] * rest), number >> _STEP_BITS


@compiled(inline="always")
def _power_of_two(exponent):
    return np.int64((exponent + _BIAS) << _FRACTION).view(np.float64)


@compiled(inline="always")
def log1p(x):
    """log(1 + x) of a float; −inf at −1, NaN below."""
    if abs(x) < _TINY:
        return x
    if not -1.0 < x < math.inf:
        return -math.inf if x == -1.0 else math.nan if x < -1.0 else x
    u = 1.0 + x
    added = u - 1.0
    return _by_table(u, (1.0 - (u - added)) + (x - added), 0)


@compiled(inline="always")
def log(x):
    """The natural logarithm of a float; −inf at 0, NaN below."""
    if not 0.0 < x < math.inf:
        return -math.inf if x == 0.0 else math.nan if x < 0.0 else x
    if x < _SMALLEST:
        return _by_table(x * 2.0**54, 0.0, -54)
    return _by_table(x, 0.0, 0)


@compiled(allocates=False)
def _by_table(x, lost, more):
    """log(x + lost) + more · ln 2; x: normal, lost: what rounding it lost."""
    bits = np.float64(x).view(np.int64)
    place = bits - _FIRST
    exponent = place >> _FRACTION
    j = np.uint64((place >> _INTERVAL_BITS) & _LAST_BITS)
    m = np.int64(bits - (exponent << _FRACTION)).view(np.float64)
    c = _INVERSES[j]
    r = (m - _CENTRES[j]) * c + _OFFSETS[j]
    z = r * r
    rest = z * (
        (r * (1 / 3) - 1 / 2)
        + z * ((r * (1 / 5) - 1 / 4) + z * ((r * (1 / 7) - 1 / 6) - z * (1 / 8)))
    )
    lost *= _power_of_two(-exponent) * c
    n = np.float64(exponent + more)
    high = n * _LN2_HIGH + _LOG_HEADS[j]
    total = high + r
    low = (n * _LN2_LOW + _LOG_TAILS[j]) + (lost - lost * r)
    return total + (((high - total) + r) + (rest + low))


@compiled(allocates=False)
def power(base, exponent):
    """base^exponent of floats, base ≥ 0: within as many ulp as log(base^exponent), and 2 more."""
    return exp(exponent * log(base))


@compiled
def powers(bases, exponent):
    """The same of each base, (n,)."""
    found = np.empty(len(bases))
    for i in range(len(bases)):
        found[i] = power(bases[i], exponent)
    return found


@compiled
def laplace(uniform):
    """Numbers of the Laplace distribution by numbers in [0, 1), (n,), as numpy makes them."""
    found = np.empty(len(uniform))
    for i in range(len(uniform)):
        u = uniform[i]
        found[i] = -log(2.0 - u - u) if u >= 0.5 else log(max(u + u, 2.0**-53))
    return found
