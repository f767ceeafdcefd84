"""Linear traces have the same bits on every processor; networks' agree within 1e-5 at first.

Processors are emulated: libraries are told by variables to do without what this one has.
"""

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import mpmath
import numpy as np
import pytest
from scipy import stats

from fedatlas.arithmetic.kernels.elementary import exp, laplace, log, log1p, powers
from other_processor import LINEAR, NETWORKS, traces

RANDOM = np.random.default_rng(3)
MANY = 2000


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
    "exp": [(0, 1), (-0.0, 1), (709.8, INF), (INF, INF), (-745.2, 0), (-INF, 0), (NAN, NAN)],
    "log1p": [
        *[(x, x) for x in (0.0, -0.0, 5e-324, -5e-324, INF, NAN)],
        *[(-1, -INF), (-1.5, NAN), (-INF, NAN)],
    ],
    "log": [(1, 0), (0, -INF), (-0.0, -INF), (-1, NAN), (INF, INF), (NAN, NAN)],
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_is_within_one_ulp(name):
    own, arguments = FUNCTIONS[name]
    with mpmath.workprec(100):
        for x in np.concatenate(arguments).tolist():
            exact = getattr(mpmath, name)(mpmath.mpf(x))
            assert abs(own(x) - exact) <= math.ulp(float(exact)), x
    for x, y in EDGES[name]:
        assert repr(own(float(x))) == repr(float(y)), x  # 0.0 is not −0.0


def test_powers_and_laplace_numbers_are_those_of_numpy():
    bases = np.arange(1.0, 2000)
    for exponent in (-1.5, -0.1, 0.0, 0.69, 2.0):
        np.testing.assert_allclose(powers(bases, exponent), bases**exponent, rtol=1e-14)
    own = laplace(np.random.default_rng(1).random(MANY))
    np.testing.assert_allclose(own, np.random.default_rng(1).laplace(size=MANY), rtol=1e-15)
    assert np.isfinite(laplace(np.array([0.0, 0.5, 1 - 2.0**-53]))).all()
    assert stats.kstest(own, stats.laplace().cdf).pvalue > 1e-3


# The C library, BLAS, numpy, torch and its BLAS.
OLD = {
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4,-AVX512F",
    "OPENBLAS_CORETYPE": "Nehalem",
    "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR",
    "ATEN_CPU_CAPABILITY": "default",
    "MKL_CBWR": "COMPATIBLE",
}
MIDDLE = {
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX512F",
    "OPENBLAS_CORETYPE": "Haswell",
    "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR",
}
# Its loops are compiled anew: few, as that takes seconds.
COMPILED = {"NUMBA_CPU_NAME": "generic"}
PROCESSORS: dict[str, tuple[dict[str, str], list[str]]] = {
    "without AVX": (OLD, [*LINEAR, *NETWORKS]),
    "with AVX2": (MIDDLE, [*LINEAR]),
    "of which numba knows nothing": (COMPILED, ["graph"]),
}


@pytest.fixture(scope="module")
def here():
    return traces([*LINEAR, *NETWORKS])


@pytest.mark.parametrize("processor", PROCESSORS)
def test_linear_traces_are_the_same_on_another_processor(processor, here):
    told, runs = PROCESSORS[processor]
    ran = subprocess.run(
        [sys.executable, Path(__file__).with_name("other_processor.py"), *runs],
        env=os.environ | told, capture_output=True, text=True, check=True,
    )  # fmt: skip
    there = json.loads(ran.stdout)
    for run in runs:
        for name, values in here[run].items():
            if run in LINEAR:
                assert there[run][name] == values, (run, name)
            elif np.asarray(values).dtype.kind == "f" and not name.endswith(("accuracy", "auroc")):
                np.testing.assert_allclose(there[run][name], values, rtol=1e-5)
