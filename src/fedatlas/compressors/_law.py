"""Check that a compressor keeps its declared law, on a few rows.

Only what no sound compressor can fail, but with a chance below one in a million: averages over
thousands of draws are compared up to 8 standard deviations, of numbers from a fixed seed.
"""

import sys
from typing import Any, NoReturn

import numpy as np

from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.errors import FedatlasError
from fedatlas.extensions import relative_path

_CALLS, _DEVIATIONS = 30, 8
#: Entries of a row, and how often it is compressed in each call.
_ROWS = {8: 150, 64: 15}
#: What a double tells, at least, that is a number times another that is known.
_BITS_OF_DOUBLE = 45


def check_law(compressor: Any) -> None:
    """Raise a FedatlasError unless means, squared errors and bits fit what is declared.

    compressor: a Compressor, whose module imports this one.

    Rows are dense, mostly zero, or zero. Rows of which the compressor makes an error, perhaps as it
    takes no such number of entries, are left out.
    """
    numbers, random = np.random.default_rng(0), RoundRandom(0)
    for entries, copies in _ROWS.items():
        dense = numbers.normal(size=entries)
        for row in (dense, dense * (np.arange(entries) == 1), 0 * dense):
            try:
                with np.errstate(all="ignore"):
                    sent = [
                        compressor.compress(np.tile(row, (copies, 1)), random.at(call))
                        for call in range(_CALLS if row.any() else 1)
                    ]
            except Exception:  # training shows it, if its rows are such
                break
            _check_row(compressor, row, np.array([found for found, _ in sent]))
            _check_bits(compressor, row, *map(np.asarray, sent[0]))


def _check_row(compressor: Any, row: np.ndarray, found: np.ndarray) -> None:
    """found: (calls, copies, d)."""
    d, norm = len(row), float(row @ row)
    if found.shape[1:] != (found.shape[1], d) or not np.isfinite(found).all():
        _refuse(compressor, f"of a finite row of {d} entries it makes what is none")
    if not norm:
        if found.any():
            _refuse(compressor, f"of a row of {d} zeros it makes others, which no law allows")
        return
    delta = compressor.contraction(d)
    if not 0 < delta <= 1:
        _refuse(compressor, f"contraction({d}) is {delta:g}: it must be in (0, 1]")
    if compressor.unbiased:
        omega = compressor.variance(d)
        # Copies that are all alike may share their random numbers: only calls are independent.
        draws = len(found) * (found.shape[1] if (found != found[:, :1]).any() else 1)
        off = float(np.linalg.norm(found.mean((0, 1)) - row) / norm**0.5)
        likely = _DEVIATIONS * (max(omega, 0) / draws) ** 0.5 + 1e-6
        if off > likely and omega <= draws / 16:
            _refuse(
                compressor,
                f"it says unbiased = True and variance({d}) = {omega:g}, but the mean of "
                f"{draws} draws is {off:.3g} ‖x‖ away from x, where up to {likely:.3g} is chance",
            )
        _check_error(compressor, f"variance({d}) = {omega:g}", "C(x)", omega, found - row, norm)
    scale, name = (delta, f"{delta:g} C(x)") if compressor.unbiased else (1.0, "C(x)")
    _check_error(
        compressor, f"contraction({d}) = {delta:g}", name, 1 - delta, scale * found - row, norm
    )


def _check_error(
    compressor: Any, told: str, name: str, allowed: float, off: np.ndarray, norm: float
) -> None:
    each = (off**2).sum(2).mean(1) / norm
    mean, likely = float(each.mean()), _DEVIATIONS * float(each.std(ddof=1)) / len(each) ** 0.5
    if mean > allowed + likely + 1e-6:
        _refuse(
            compressor,
            f"it says {told}, which allows E‖{name} − x‖² = {allowed:.6g} ‖x‖², but that is "
            f"{mean:.6g} ‖x‖² over {each.size * off.shape[1]} draws",
        )


def _check_bits(compressor: Any, row: np.ndarray, found: np.ndarray, bits: np.ndarray) -> None:
    """Doubles that are passed on but for one factor of the row cannot take next to nothing."""
    if bits.shape not in ((), (len(found),)) or not np.isfinite(bits).all() or (bits <= 0).any():
        first = f"of shape {bits.shape}, the first {bits.flat[0]:.3g}" if bits.size else "none"
        _refuse(compressor, f"bits are {first}: one positive number, or one for each row")
    kept = (found != 0) & (row != 0)
    ratio = np.divide(found, row, out=np.zeros_like(found), where=kept)
    first = ratio[np.arange(len(found)), kept.argmax(1)][:, None]
    alike = (kept & (abs(ratio - first) <= 1e-14 * abs(first))).sum(1)
    # Less what the choice of entries may tell, and a number more for the factor.
    needed = _BITS_OF_DOUBLE * (alike - 1) - len(row) - 64
    if (short := np.flatnonzero(bits < needed)).size:
        at = short[0]
        _refuse(
            compressor,
            f"a row of {len(row)} entries, of which receivers get {alike[at]} in full precision "
            f"(up to one factor), is said to take {bits.flat[at if bits.ndim else 0]:g} bits, but "
            f"no code needs fewer than {needed[at]}: count what is sent",
        )


def _refuse(compressor: Any, told: str) -> NoReturn:
    kind = type(compressor)
    file = relative_path(str(sys.modules[kind.__module__].__file__))
    raise FedatlasError(f"{file}: {kind.__name__}: {told}. See docs/adding/compressors.md")
