"""Linear traces have the same bits on every processor: its kinds are told to libraries by switches.

Networks agree within a tolerance.
"""

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable

import mpmath
import numpy as np
import pytest
from scipy import stats

from fedatlas.arithmetic.kernels.elementary import exp, laplace, log, log1p, powers

RANDOM = np.random.default_rng(3)
MANY = 4000


def tens(least: float, most: float) -> np.ndarray:
    return 10.0 ** RANDOM.uniform(least, most, MANY)


FUNCTIONS: dict[str, tuple[Callable[[float], float], list[np.ndarray]]] = {
    "exp": (
        exp,
        [
            RANDOM.uniform(-1, 1, MANY),
            RANDOM.uniform(-745, 709.7, MANY),
            np.array([-745.13, -708.4, -700, 700, 709.782712893384]),
            tens(-20, 0) * RANDOM.choice([-1, 1], MANY),
        ],
    ),
    "log1p": (
        log1p,
        [RANDOM.uniform(-0.4, 0.6, MANY), tens(-20, 308), tens(-16, 0) - 1, -tens(-20, -1)],
    ),
    "log": (log, [RANDOM.uniform(0.5, 2, MANY), tens(-323, 308), np.array([5e-324, 1.0])]),
}
INF, NAN = math.inf, math.nan
EDGES = {
    "exp": {0.0: 1.0, -0.0: 1.0, 709.8: INF, INF: INF, -745.2: 0.0, -INF: 0.0, NAN: NAN},
    "log1p": {0.0: 0.0, -0.0: -0.0, 5e-324: 5e-324, -1.0: -INF, -1.5: NAN, INF: INF, NAN: NAN},
    "log": {1.0: 0.0, 0.0: -INF, -0.0: -INF, -1.0: NAN, INF: INF, NAN: NAN},
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_is_within_one_ulp(name):
    own, arguments = FUNCTIONS[name]
    with mpmath.workprec(100):
        for x in np.concatenate(arguments).tolist():
            exact = getattr(mpmath, name)(mpmath.mpf(x))
            assert abs(own(x) - exact) <= math.ulp(float(exact)), x
    for x, y in EDGES[name].items():
        assert repr(own(x)) == repr(y), x  # 0.0 is not −0.0


def test_powers_and_laplace_numbers_are_those_of_numpy():
    bases = np.arange(1.0, 2000)
    for exponent in (-1.5, -0.1, 0.0, 0.69, 2.0):
        np.testing.assert_allclose(powers(bases, exponent), bases**exponent, rtol=1e-14)
    own = laplace(np.random.default_rng(1).random(MANY))
    np.testing.assert_allclose(own, np.random.default_rng(1).laplace(size=MANY), rtol=1e-15)
    assert np.isfinite(laplace(np.array([0.0, 0.5, 1 - 2.0**-53]))).all()
    assert stats.kstest(own, stats.laplace().cdf).pvalue > 1e-3


# Every one of them is heeded by a library that multiplies, or has exp or log.
OLD = {
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4,-AVX512F",
    "OPENBLAS_CORETYPE": "Nehalem",
    "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR",
    "ATEN_CPU_CAPABILITY": "default",
    "MKL_CBWR": "COMPATIBLE",
}
PROCESSORS: dict[str, dict[str, str]] = {
    "this": {},
    "old": OLD,
    "haswell": {
        "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX512F",
        "OPENBLAS_CORETYPE": "Haswell",
        "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR",
        "ATEN_CPU_CAPABILITY": "avx2",
    },
    "compiled": {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""},
}
