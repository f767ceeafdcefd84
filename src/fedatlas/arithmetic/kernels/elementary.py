"""exp, log, log1p and powers, compiled: the same bits on every processor, to within 1 ulp.

The C library has several of each and takes the fastest that the processor knows, with fused
multiplications or without, which round otherwise; numpy has more. Here every operation is rounded
by itself, as numba fuses none.

e^x is 2^k 2^(j/128) e^r with |r| ≤ ln 2/256, from a table and a polynomial (Tang 1989, ACM TOMS
15, 144). The logarithm of 2^k (1 + f) is k ln 2 + 2 artanh(f/(2 + f)) by its series; how its terms
are put together is fdlibm's (Ng 1993).
"""

import math
from decimal import Decimal, localcontext

import numpy as np

from fedatlas.arithmetic.kernels.compilation import compiled

_STEPS = 128
with localcontext(prec=50):
    _LN2 = Decimal(2).ln()
    _PER_STEP = float(_STEPS / _LN2)
    # In two parts, the first so short that its products with steps are exact.
    _STEP_HIGH = float(int(_LN2 / _STEPS * 2**42)) / 2**42
    _STEP_LOW = float(_LN2 / _STEPS - Decimal(_STEP_HIGH))
    _ROOTS = [Decimal(2) ** (Decimal(j) / _STEPS) for j in range(_STEPS)]
    _HEADS = np.array([float(root) for root in _ROOTS])
    _TAILS = np.array([float(root - Decimal(float(root))) for root in _ROOTS])
_LN2_HIGH, _LN2_LOW = _STEPS * _STEP_HIGH, _STEPS * _STEP_LOW
_TO_WHOLE = 1.5 * 2.0**52  # added and taken off again, it rounds to whole numbers
_LAST_STEP = np.uint64(_STEPS - 1)

# Of float64: how many bits its fraction has, those bits, and the exponent of 1.
_FRACTION, _FRACTION_BITS, _ONE = 52, 2**52 - 1, 1023
_SQRT2, _TINY = math.sqrt(2.0), 2.0**-54


@compiled(inline="always")
def exp(x):
    """e^x of a float."""
    if not abs(x) < 700.0:
        return _far_exp(x)
    value, power = _by_steps(x)
    return value * _power_of_two(power)


@compiled(allocates=False)
def _far_exp(x):
    """The same of what may be NaN, or too large or too small for one power of two."""
    if x != x:
        return x
    value, power = _by_steps(min(max(x, -800.0), 800.0))
    half = power >> 1
    return value * _power_of_two(half) * _power_of_two(power - half)


@compiled(inline="always")
def _by_steps(x):
    """e^x = value · 2^power with a value about 1."""
    steps = (x * _PER_STEP + _TO_WHOLE) - _TO_WHOLE
    r = (x - steps * _STEP_HIGH) - steps * _STEP_LOW
    rest = r + r * r * (1 / 2 + r * (1 / 6 + r * (1 / 24 + r * (1 / 120))))
    number = np.int64(steps)
    j = np.uint64(number) & _LAST_STEP
    return _HEADS[j] + (_TAILS[j] + _HEADS[j] * rest), number >> 7


@compiled(inline="always")
def _power_of_two(power):
    return np.int64((power + _ONE) << _FRACTION).view(np.float64)


@compiled(inline="always")
def log1p(x):
    """log(1 + x) of a float; −inf at −1, NaN below."""
    if abs(x) < _TINY:
        return x
    if -0.25 < x < 0.4:
        return _series(0.0, x, 0.0)
    return _far_log1p(x)


@compiled(allocates=False)
def _far_log1p(x):
    """The same of other numbers."""
    if not -1.0 < x < math.inf:
        return -math.inf if x == -1.0 else math.nan if x < -1.0 else x
    u = 1.0 + x
    lost = 1.0 - (u - x) if x > 1.0 else x - (u - 1.0)  # to rounding
    power, f = _split(u)
    return _series(power, f, lost / u)


@compiled(allocates=False)
def log(x):
    """The natural logarithm of a float; −inf at 0, NaN below."""
    if not 0.0 < x < math.inf:
        return -math.inf if x == 0.0 else math.nan if x < 0.0 else x
    if x < 2.0**-1022:
        power, f = _split(x * 2.0**54)
        return _series(power - 54.0, f, 0.0)
    power, f = _split(x)
    return _series(power, f, 0.0)


@compiled(inline="always")
def _split(x):
    """x > 0, not subnormal, is 2^power (1 + f) with √½ ≤ 1 + f ≤ √2."""
    bits = np.float64(x).view(np.int64)
    power = (bits >> _FRACTION) - _ONE
    of_one = np.int64((bits & _FRACTION_BITS) | (_ONE << _FRACTION)).view(np.float64)
    if of_one > _SQRT2:
        of_one, power = 0.5 * of_one, power + 1
    return np.float64(power), of_one - 1.0


@compiled(inline="always")
def _series(power, f, more):
    """power · ln 2 + log(1 + f) + more, a correction of the last digits."""
    half, s = 0.5 * f * f, f / (2.0 + f)
    z = s * s
    w = z * z
    odd = z * (2 / 3 + w * (2 / 7 + w * (2 / 11 + w * (2 / 15 + w * (2 / 19 + w * (2 / 23))))))
    even = w * (2 / 5 + w * (2 / 9 + w * (2 / 13 + w * (2 / 17 + w * (2 / 21)))))
    tail = s * (half + (odd + even)) + (power * _LN2_LOW + more)
    return power * _LN2_HIGH - ((half - tail) - f)


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
