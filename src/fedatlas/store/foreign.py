"""Import runs made elsewhere as an ordinary experiment: columns of a log, and their traces."""

import operator
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from fedatlas.errors import FedatlasError, error_context, similar
from fedatlas.files import canonical_json
from fedatlas.schema.foreign import FOREIGN_COSTS, CurvesMapping
from fedatlas.schema.models import validated
from fedatlas.schema.quantities import (
    BYTES,
    LARGER_IS_BETTER,
    LEVELS,
    MEASUREMENTS,
    OPTIMUM_ACCURACY,
    counts_all_bytes,
)
from fedatlas.store.atlas import Atlas, open_atlas
from fedatlas.store.experiment import (
    TRACES,
    Experiment,
    ExperimentHeading,
    StoredPoint,
    join_traces,
    write_experiment,
)
from fedatlas.store.logs import NAME, Log, read_log
from fedatlas.store.trace import build_trace

_PAPER, _POINT = "ours", "only"
# Names of columns that are obvious, as `_plain` writes them.
_OBVIOUS = {
    "run": ("run", "method", "algorithm", "solver_name"),
    "seed": ("seed", "random_seed", "idx_rep"),
    "round": (
        "round",
        "rounds",
        "server_round",
        "communication_round",
        "step",
        "global_step",
        "stop_val",
        "evaluations",
    ),
}
_SHORT = {"test_acc": "test_accuracy", "train_acc": "train_accuracy"}
_SHORT |= dict.fromkeys(("objective_value", "raw_y"), "objective")  # of benchopt, of IOHprofiler
# A column or its sum, then perhaps a sign and a number.
_FORMULA = re.compile(
    r"(?:sum\((?P<sum>.+)\)|(?P<column>.+?))"
    r"(?: *(?P<sign>[-+*/]) *(?P<number>\d+(?:\.\d*)?(?:e[-+]?\d+)?))?"
)
_SIGNS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}
# Costs that may be spent at the start alone.
_ONCE = ("epsilon", "delta", "full_passes", "full_participations")
_SPENT = "but costs are all that was spent so far"
# Names such as fedavg-0, fedavg_s0 and fedavg/seed=0.
_NAMES = r"(?P<run>.+?)(?:[-_/ ]+(?:seed|s|rep)?[-_=]?|seed)(?P<seed>\d+)"


def import_runs(
    source: Path | str | Sequence[Path | str] | pd.DataFrame | xr.Dataset,
    folder: Path | str | None = None,
    *,
    format: str = "",
    **mapping: Any,
) -> Atlas:
    """Runs made elsewhere as an atlas, which `compare`, `plot` and others take as any.

    source: files or folders of one format (docs/curves.md), or a pandas frame or a data set of
    xarray with a value for each run, seed and round. folder: a results folder to write them to;
    without one they are kept as long as the atlas. format: where files do not tell it. mapping:
    keys of a mapping file, such as experiment, problem, run, seed, round, costs and metrics.
    Columns with obvious names need no key; the experiment's notes say which were taken.

    FedatlasError names the source, the column, the value and what is expected.

    >>> import pandas as pd
    >>> rows = pd.DataFrame({"method": "mine", "round": [0, 10, 20], "acc": [10.0, 50.0, 70.0]})
    >>> mine = fedatlas.import_runs(rows, metrics={"test_accuracy": "acc / 100"})
    >>> fedatlas.compare(mine, "test_accuracy", "round", 0.6).table()
                   round   seeds
    run
    mine (foreign)  15.6  1 of 1
    """
    log = read_log(source, format)
    named = _in_full(log, validated(CurvesMapping, mapping, f"{log.where}: mapping"))
    rows, has_seeds = _rows(log, named)
    told = [*_taken(log, named)]
    rows = _measured(log, named, rows, told)
    runs = {str(run): _trace(log, named, own, told) for run, own in rows.groupby("run", sort=False)}
    keys = _keys(log, runs)
    if unknown := sorted(named.titles.keys() - runs.keys() - {*keys.values()}):
        known = similar(unknown[0], runs) or f"; there are {', '.join(runs)}"
        raise log.error(f"titles: no run is named '{unknown[0]}'{known}")
    experiment = named.experiment or log.name
    origin = f"made elsewhere, read from {log.where} ({log.kind})"
    lacks = ["digests of code and data", "hyper-parameters", *["seeds"] * (not has_seeds)]
    about = {"paper": _PAPER, "experiment": experiment, "point": _POINT}
    about |= {"foreign": f"{origin}; lacks {', '.join(lacks)}"}
    about |= {"problem": named.problem} if named.problem else {}
    heading = ExperimentHeading(
        paper=_PAPER, experiment=experiment, title=named.title or experiment, source=origin,
        notes="; ".join(told), dataset="",
    )  # fmt: skip
    titles = {run: named.titles.get(run) or named.titles.get(keys[run], run) for run in runs}
    points = [
        StoredPoint(trace.assign_attrs(run=keys[run], **about), titles[run], True)
        for run, trace in runs.items()
    ]
    kept = TemporaryDirectory(prefix="fedatlas-") if folder is None else None
    file = Path(kept.name if kept else str(folder)) / "experiments" / experiment / TRACES
    _require_replaceable(file)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FedatlasError(
            f"{file.parent}: cannot be made ({error.strerror}): name another results folder"
        ) from None
    write_experiment(join_traces(heading, points), file)
    atlas = open_atlas(file)
    atlas.kept = kept
    return atlas


def _require_replaceable(file: Path) -> None:
    """FedatlasError if the file holds runs that were trained here."""
    points = Experiment(file).points.values() if file.exists() else ()
    if any("foreign" not in point.attributes for own in points for point in own.values()):
        raise FedatlasError(f"{file}: holds runs that fedatlas trained: name another folder")


def _measured(log: Log, named: CurvesMapping, rows: pd.DataFrame, told: list[str]) -> pd.DataFrame:
    """The rows of runs that have some value; told: lists the others."""
    finite = rows[[*named.metrics]].apply(np.isfinite).any(axis=1)
    values = finite.groupby(rows["run"]).any()
    metrics = ", ".join(named.metrics)
    if not values.any():
        raise log.error(f"run '{rows['run'].iloc[0]}' has no value of {metrics}")
    told += [f"run '{run}' left out: no value of {metrics}" for run in values.index[~values]]
    return rows[rows["run"].map(values)]


def _keys(log: Log, runs: Iterable[str]) -> dict[str, str]:
    """Names of runs, and their keys, which are parts of paths; FedatlasError if two are one."""
    keys: dict[str, str] = {}
    for run in runs:
        key = run.replace("/", "-").lstrip(".")
        if other := next((one for one, own in keys.items() if own == key), None):
            raise log.error(f"runs '{other}' and '{run}' would both be '{key}': rename one")
        keys[run] = key
    return keys


def _plain(column: str) -> str:
    """A column's name as names are written here."""
    return re.sub(r"\W+|_+", "_", column.lower()).strip("_")


def _in_full(log: Log, given: CurvesMapping) -> CurvesMapping:
    """The mapping with what is obvious; FedatlasError where the round or all metrics are not."""
    plain: dict[str, str] = {}
    for column in log.columns:
        plain.setdefault(_plain(column), column)
    found = {
        key: getattr(given, key) or next((plain[one] for one in names if one in plain), None)
        for key, names in _OBVIOUS.items()
    }
    if given.names and not given.run and log.has_names:
        found["run"] = None
    columns = f"columns are {', '.join(log.columns)}"
    if found["round"] is None:
        raise log.error(
            "no column has the name of the round: name one in a mapping, 'round: COLUMN'; "
            f"{columns}{_hint(next(iter(log.columns), ''))}"
        )
    rest = {name: column for name, column in plain.items() if column not in found.values()}
    parts = {name for name in BYTES if name in rest}
    needless = {"bytes"} if counts_all_bytes(parts) else parts if "bytes" in rest else set()
    costs = given.costs or {
        one: column for one, column in rest.items() if one in FOREIGN_COSTS and one not in needless
    }
    metrics = given.metrics or _obvious_metrics(log, rest)
    if not metrics:
        loss = next((column for name, column in rest.items() if "loss" in name), None)
        hint = (
            f"such as 'metrics: {{test_accuracy: COLUMN}}'; {columns}; measurements are "
            f"{', '.join(MEASUREMENTS)}, and those that a project declares"
            if loss is None
            else f"'metrics: {{objective: {loss}}}', or where f* is known {{suboptimality: "
            f"{loss} - F*}} with the number in place of F*"
        )
        raise log.error(f"no column has the name of a measurement: name one in a mapping, {hint}")
    return given.model_copy(update={**found, "costs": costs, "metrics": metrics})


def _hint(first: str) -> str:
    """Why a CSV file may have been read as columns that it does not have, by its first one."""
    if ";" in first:
        return ". Semicolons part nothing: save the file with commas, and points in numbers"
    return ". Remove the lines before the one with names" if first.startswith("#") else ""


def _obvious_metrics(log: Log, rest: Mapping[str, str]) -> dict[str, str]:
    """Measurement → column, by names; FedatlasError where two columns have the name of one."""
    metrics: dict[str, str] = {}
    for name, column in rest.items():
        short = _SHORT.get(name, name.removeprefix("objective_"))
        if short in metrics:
            raise log.error(
                f"columns '{metrics[short]}' and '{column}' may both be {short}: name one in a "
                f"mapping, 'metrics: {{{short}: {column}}}', or call both the same in the log"
            )
        metrics |= {short: column} if short in MEASUREMENTS else {}
    return metrics


def _taken(log: Log, named: CurvesMapping) -> Iterator[str]:
    """Which columns were taken for what, and which were not."""
    own = {"run": named.run, "seed": named.seed, "round": named.round}
    taken = own | named.costs | named.metrics
    yield ", ".join(f"{name}: {column or 'by names'}" for name, column in taken.items())
    used = {_parts(log, column)[0] for column in taken.values() if column}
    if left := [column for column in log.columns if column not in used]:
        yield f"not read: {', '.join(left)}"
    counted = [name for name in BYTES if name in named.costs]
    if counted and not counts_all_bytes(named.costs):
        yield f"bytes of all directions are not known, only {counted[0]}"
    if log.beside:
        yield f"not read: files of {log.beside}; --format chooses"


def _parts(log: Log, formula: str) -> tuple[str, Mapping[str, str | None]]:
    """The column of a formula, and what is done with it."""
    parts = None if formula in log.frame else _FORMULA.fullmatch(formula)
    return (formula, {}) if parts is None else (parts["sum"] or parts["column"], parts.groupdict())


def _column(log: Log, column: str, key: str) -> pd.Series:
    if column not in log.frame:
        known = similar(column, log.columns) or f"; columns are {', '.join(log.columns)}"
        is_formula = re.search(r"[-+*/()]", column)
        allowed = "; a formula is COLUMN or sum(COLUMN), then at most one of + - * / and one number"
        raise log.error(
            f"{key}: there is no column '{column}'{known}{allowed if is_formula else ''}"
        )
    return log.frame[column]


def _numbers(log: Log, formula: str, key: str, groups: Sequence[pd.Series] = ()) -> pd.Series:
    """What a column gives, or a formula of one; groups: within which it is summed, sorted."""
    name, parts = _parts(log, formula)
    column = _column(log, name, key)
    found = pd.to_numeric(column, errors="coerce").astype(float)
    wrong = column[found.isna() & column.notna() & (column.astype(str).str.lower() != "nan")]
    if len(wrong):
        at = f"{key}: column '{name}', {log.at(wrong.index[0])}"
        raise log.error(f"{at}: '{wrong.iloc[0]}', but numbers are expected")
    if parts.get("sum"):
        found = found.groupby([*groups]).cumsum()
    if sign := parts.get("sign"):
        number = float(str(parts["number"]))
        if sign == "/" and number == 0:
            raise log.error(f"{key}: '{formula}' divides by 0")
        found = _SIGNS[sign](found, number)
    return found


def _runs_and_seeds(log: Log, named: CurvesMapping) -> tuple[pd.Series, pd.Series, bool]:
    """Which run and seed each row is of, and whether anything tells seeds."""
    run = _column(log, named.run, "run") if named.run else log.frame[NAME]
    if len(empty := run[run.isna()]):
        at = f"run: column '{named.run}', {log.at(empty.index[0])}"
        raise log.error(f"{at}: is empty, but the name of a run is expected")
    run = run.astype(str)
    seed = _numbers(log, named.seed, "seed") if named.seed else pd.Series(0.0, run.index)
    if len(wrong := seed[seed != np.floor(seed)]):
        at = f"seed: column '{named.seed}', {log.at(wrong.index[0])}"
        told = "is empty" if np.isnan(wrong.iloc[0]) else f"'{wrong.iloc[0]:g}'"
        raise log.error(f"{at}: {told}, but whole numbers are expected")
    found = {}
    if named.names or not (named.run or named.seed):
        pattern = re.escape(named.names).replace(r"\{run\}", "(?P<run>.+)")
        pattern = pattern.replace(r"\{seed\}", r"(?P<seed>\d+)") or _NAMES
        for name in run.unique():
            if match := re.fullmatch(pattern, name):
                found[name] = match.groupdict()
            elif named.names:
                raise log.error(f"names: '{name}' does not match '{named.names}'")
    by_name = any("seed" in one for one in found.values())
    if by_name:
        seed = run.map(lambda name: int(found.get(name, {}).get("seed", 0)))
    run = run.map(lambda name: found.get(name, {"run": name})["run"])
    return run, seed.astype(int), by_name or bool(named.seed)


def _rows(log: Log, named: CurvesMapping) -> tuple[pd.DataFrame, bool]:
    """Run, seed, round, costs and metrics as numbers, sorted; and whether anything tells seeds."""
    run, seed, has_seeds = _runs_and_seeds(log, named)
    lost = log.frame["status"] == "diverged" if "status" in log.frame else False
    rows = pd.DataFrame({"run": run, "seed": seed, "lost": lost})
    rows["round"] = _numbers(log, str(named.round), "round")
    rows["lost"] = rows.groupby(["run", "seed"])["lost"].transform("any")
    rows = rows[rows["round"].notna()].sort_values(["seed", "round"], kind="stable")
    if len(twice := rows[rows.duplicated(["run", "seed", "round"], keep=False)]):
        one = twice.iloc[0]
        raise log.error(
            f"run '{one['run']}', seed {one['seed']} has round {one['round']:g} in "
            f"{' and '.join(map(log.at, twice.index[:2]))}: remove one if a row is there twice, or "
            "say in a mapping what tells them apart: 'seed: COLUMN', 'run: COLUMN' or 'names: "
            "PATTERN'"
        )
    ordered = log._replace(frame=log.frame.loc[rows.index])
    for name, formula in {**named.costs, **named.metrics}.items():
        rows[name] = _numbers(ordered, formula, name, [rows["run"], rows["seed"]])
    return rows, has_seeds


def _trace(log: Log, named: CurvesMapping, rows: pd.DataFrame, told: list[str]) -> xr.Dataset:
    """The trace of a run by its rows; told: lists what was left out of it, and lost seeds."""
    run = rows["run"].iloc[0]
    costs = ["round", *(name for name in named.costs if rows[name].notna().any())]
    metrics = [name for name in named.metrics if np.isfinite(rows[name]).any()]
    values, status, gaps = {}, [], []
    for seed, own in rows.groupby("seed"):
        kept, ends = _records(own[costs], own[metrics])
        lost = bool(ends or own["lost"].any())
        found = own.loc[kept, [*costs, *metrics]]
        with error_context(f"{log.where}: run '{run}', seed {seed}"):
            _check_values(log, named, found, costs[1:], metrics)
        told += [
            f"warning: run '{run}', seed {seed}: {name} stays at {found[name].iloc[1]:g} after its "
            f"first record: write sum({named.costs[name]}) if rows hold what each adds"
            for name in costs[1:]
            if found[name].iloc[0] == 0 and _stays(found[name].iloc[1:])
        ]
        values[int(str(seed))] = found.to_numpy(float)
        status.append("diverged" if lost else "ok")
        gaps += [] if lost else [own.drop(found.index)]
        if lost:
            last = f"{log.at(found.index[-1])}, round {found['round'].iloc[-1]:g}"
            told.append(f"run '{run}', seed {seed} diverged: no numbers after {last}")
    if gaps and len(left := pd.concat(gaps)):
        without = [one for one in [*costs, *metrics] if not np.isfinite(left[one]).all()]
        lacking = f"without a finite number of {' or '.join(without)}"
        told.append(f"run '{run}': {len(left)} of {len(rows)} rows left out, {lacking}")
    # A diverged seed ends with NaN, others repeat their last record.
    longest = max(len(own) + (of != "ok") for own, of in zip(values.values(), status, strict=True))
    if longest < 2:
        raise log.error(f"run '{run}' has one record, but a curve needs two")
    cube = np.full((len(values), longest, len(costs) + len(metrics)), np.nan)
    for whole, each, of in zip(cube, values.values(), status, strict=True):
        whole[: len(each)] = each
        whole[len(each) :] = each[-1] if of == "ok" else np.nan
    variables = {name: cube[:, :, place] for place, name in enumerate([*costs, *metrics])}
    stated: dict[str, Any] = {"hyper_parameters": {}, "network": None, "dataset": ""}
    about = {"algorithm": run, "specification": canonical_json(stated | {"seeds": [*values]})}
    return build_trace(variables, status, [*values], about)


def _records(costs: pd.DataFrame, metrics: pd.DataFrame) -> tuple[np.ndarray, bool]:
    """Which rows of a seed are records, and whether it diverged.

    A record has all numbers. A metric that is in every row up to some and in none after diverged;
    one with gaps before is measured now and then.
    """
    there = np.isfinite(metrics.to_numpy(float))
    number = there.sum(axis=0)
    ends = [n for n, one in zip(number, there.T, strict=True) if one[:n].all()]
    end = min([n for n in ends if n], default=len(there))
    kept = there.all(axis=1) & costs.notna().all(axis=1).to_numpy()
    return kept & (np.arange(len(there)) < end), bool(end < len(there))


def _stays(spent: pd.Series) -> bool:
    """Whether a cost is there from the first of several records on and never rises."""
    return len(spent) > 1 and spent.name not in _ONCE and spent.iloc[0] > 0 and spent.nunique() == 1


def _check_values(
    log: Log,
    named: CurvesMapping,
    rows: pd.DataFrame,
    costs: Sequence[str],
    metrics: Sequence[str],
) -> None:
    """FedatlasError for records that are none, or that cannot be what they are said to be."""
    if not len(rows):
        raise FedatlasError(f"no row has a value of all of {', '.join(metrics)}")
    for name in costs:
        if len(fallen := rows[rows[name].diff() < 0]):
            raise FedatlasError(
                f"{name} falls to {fallen[name].iloc[0]:g} at round {fallen['round'].iloc[0]:g} "
                f"({log.at(fallen.index[0])}), {_SPENT}: mend the round or the cost of this row, "
                f"or write sum({named.costs[name]}) if rows hold what each adds"
            )
        if _stays(rows[name]):
            raise FedatlasError(
                f"{name} is {rows[name].iloc[0]:g} in every row, {_SPENT}: write "
                f"sum({named.costs[name]}), as rows seem to hold what each adds"
            )
    for name in metrics:
        outside = rows[name][~rows[name].between(0, 1)]
        if name in LARGER_IS_BETTER and len(outside):
            raise FedatlasError(
                f"{name} is {outside.iloc[0]:g}, but lies between 0 and 1: write '{name}: COLUMN / "
                "100' for percentages"
            )
        below = rows[name][rows[name] < -OPTIMUM_ACCURACY]
        if name in LEVELS and name != "objective" and len(below):
            column, at = _parts(log, named.metrics[name])[0], log.at(below.index[0])
            raise FedatlasError(
                f"{name}: column '{column}', {at}: '{named.metrics[name]}' is "
                f"{below.iloc[0]:g}, but {name} is never negative"
                f"{': f* is too large' if name == 'suboptimality' else ''}"
            )
