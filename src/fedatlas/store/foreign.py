"""Runs made elsewhere as an ordinary experiment: what a log's columns are, and traces of them."""

import operator
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from fedatlas.errors import FedatlasError, similar
from fedatlas.files import canonical_json
from fedatlas.schema.foreign import FOREIGN_COSTS, CurvesMapping
from fedatlas.schema.models import validated
from fedatlas.schema.quantities import BYTES, LARGER_IS_BETTER, MEASUREMENTS
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

if TYPE_CHECKING:
    import pandas as pd

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
# Names such as fedavg-0, fedavg_s0 and fedavg/seed=0.
_NAMES = r"(?P<run>.+?)(?:[-_/ ]+(?:seed|s|rep)?[-_=]?|seed)(?P<seed>\d+)"


def import_runs(
    source: "Path | str | Sequence[Path | str] | pd.DataFrame | xr.Dataset",
    folder: Path | str | None = None,
    *,
    format: str = "",
    **mapping: Any,
) -> Atlas:
    """Runs made elsewhere as an atlas, which `compare`, `plot` and others take as any.

    source: files or folders of one format (docs/curves.md), or a pandas frame or a data set of
    xarray with a value for each run, seed and round. folder: a results folder to write them to;
    without one they are kept as long as the atlas. format: where files do not tell it. mapping:
    keys of a mapping file, such as experiment, problem, run, seed, round, costs and metrics. Where
    a key is not given, columns with obvious names are taken; the experiment's notes say which.

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
    runs = {str(run): _trace(log, named, own, told) for run, own in rows.groupby("run", sort=False)}
    if unknown := sorted(named.titles.keys() - runs.keys()):
        known = similar(unknown[0], runs) or f"; there are {', '.join(runs)}"
        raise FedatlasError(f"{log.where}: titles: no run is named '{unknown[0]}'{known}")
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
    points = [
        StoredPoint(trace.assign_attrs(run=run, **about), named.titles.get(run, run), True)
        for run, trace in runs.items()
    ]
    kept = TemporaryDirectory(prefix="fedatlas-") if folder is None else None
    file = Path(kept.name if kept else str(folder)) / "experiments" / experiment / TRACES
    _require_replaceable(file)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_experiment(join_traces(heading, points), file)
    atlas = open_atlas(file)
    atlas.kept = kept
    return atlas


def _require_replaceable(file: Path) -> None:
    """FedatlasError if the file holds runs that were trained here."""
    points = Experiment(file).points.values() if file.exists() else ()
    if any("foreign" not in point.attributes for own in points for point in own.values()):
        raise FedatlasError(f"{file}: holds runs that fedatlas trained: name another folder")


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
    columns = f"columns are {', '.join(log.columns)}"
    if found["round"] is None:
        raise FedatlasError(
            f"{log.where}: no column is obviously the round: say in a mapping which is, 'round: "
            f"COLUMN'; {columns}"
        )
    rest = {name: column for name, column in plain.items() if column not in found.values()}
    costs = {name: column for name, column in rest.items() if name in FOREIGN_COSTS}
    metrics = {
        _SHORT.get(name, name.removeprefix("objective_")): column for name, column in rest.items()
    }
    metrics = {name: column for name, column in metrics.items() if name in MEASUREMENTS}
    if not given.metrics and not metrics:
        raise FedatlasError(
            f"{log.where}: no column is obviously a measurement: say in a mapping which is, such "
            f"as 'metrics: {{test_accuracy: COLUMN}}'; {columns}; measurements are "
            f"{', '.join(MEASUREMENTS)}, and those that a project declares"
        )
    costs, metrics = given.costs or costs, given.metrics or metrics
    return given.model_copy(update={**found, "costs": costs, "metrics": metrics})


def _taken(log: Log, named: CurvesMapping) -> Iterator[str]:
    """Which columns were taken for what, and which were not."""
    own = {"run": named.run, "seed": named.seed, "round": named.round}
    taken = own | named.costs | named.metrics
    yield ", ".join(f"{name}: {column or 'by names'}" for name, column in taken.items())
    used = " ".join(map(str, taken.values()))
    if left := [column for column in log.columns if column not in used]:
        yield f"not read: {', '.join(left)}"
    if "bytes" in named.costs:
        yield f"{BYTES[0]} are bytes of all directions"


def _column(log: Log, column: str, key: str) -> "pd.Series":
    if column not in log.frame:
        known = similar(column, log.columns) or f"; columns are {', '.join(log.columns)}"
        raise FedatlasError(f"{log.where}: {key}: there is no column '{column}'{known}")
    return log.frame[column]


def _numbers(log: Log, formula: str, key: str, groups: "Sequence[pd.Series]" = ()) -> "pd.Series":
    """What a column gives, or a formula of one; groups: within which it is summed, sorted."""
    import pandas as pd

    parts = None if formula in log.frame else _FORMULA.fullmatch(formula)
    name = formula if parts is None else parts["sum"] or parts["column"]
    column = _column(log, name, key)
    found = pd.to_numeric(column, errors="coerce").astype(float)
    wrong = column[found.isna() & column.notna() & (column.astype(str).str.lower() != "nan")]
    if len(wrong):
        row, value = wrong.index[0] + 1, wrong.iloc[0]
        raise FedatlasError(
            f"{log.where}: {key}: column '{name}', row {row}: '{value}', but numbers are expected"
        )
    if parts is not None and parts["sum"]:
        found = found.groupby([*groups]).cumsum()
    if parts is not None and parts["sign"]:
        found = _SIGNS[parts["sign"]](found, float(parts["number"]))
    return found


def _rows(log: Log, named: CurvesMapping) -> "tuple[pd.DataFrame, bool]":
    """Run, seed, round, costs and metrics as numbers, sorted; and whether anything tells seeds."""
    import pandas as pd

    has_seeds = named.seed is not None
    run = _column(log, named.run, "run").astype(str) if named.run else log.frame[NAME]
    seed = _numbers(log, named.seed, "seed") if named.seed else run.map(lambda _: 0.0)
    if named.names or (named.run is None and named.seed is None):
        pattern = re.escape(named.names).replace(r"\{run\}", "(?P<run>.+)")
        pattern = pattern.replace(r"\{seed\}", r"(?P<seed>\d+)") if named.names else _NAMES
        parts = {name: re.fullmatch(pattern, name) for name in run.unique()}
        if named.names and None in parts.values():
            wrong = next(name for name, match in parts.items() if match is None)
            raise FedatlasError(f"{log.where}: names: '{wrong}' is not as '{named.names}' says")
        told = {name: match.groupdict() for name, match in parts.items() if match}
        if any("seed" in one for one in told.values()):
            has_seeds = True
            seed = run.map(lambda name: float(told.get(name, {}).get("seed", 0)))
        run = run.map(lambda name: told.get(name, {"run": name})["run"])
    if len(wrong := seed[seed != np.floor(seed)]):
        raise FedatlasError(
            f"{log.where}: seed: column '{named.seed}', row {wrong.index[0] + 1}: "
            f"'{wrong.iloc[0]:g}', but whole numbers are expected"
        )
    rows = pd.DataFrame(
        {
            "run": run.str.replace("/", "-").str.lstrip("."),
            "seed": seed.astype(int),
            "round": _numbers(log, str(named.round), "round"),
            "lost": log.frame["status"] == "diverged" if "status" in log.frame else False,
        }
    )
    rows["lost"] = rows.groupby(["run", "seed"])["lost"].transform("any")
    rows = rows[rows["round"].notna()].sort_values(["seed", "round"], kind="stable")
    if (twice := rows[rows.duplicated(["run", "seed", "round"], keep=False)]).size:
        one = twice.iloc[0]
        raise FedatlasError(
            f"{log.where}: run '{one['run']}', seed {one['seed']} has round {one['round']:g} in "
            f"rows {', '.join(str(row + 1) for row in twice.index[:2])}: say in a mapping what "
            "tells them apart: 'seed: COLUMN', 'run: COLUMN' or 'names: PATTERN'"
        )
    ordered = log._replace(frame=log.frame.loc[rows.index])
    for name, formula in {**named.costs, **named.metrics}.items():
        rows[name] = _numbers(ordered, formula, name, [rows["run"], rows["seed"]])
    return rows, has_seeds


def _trace(log: Log, named: CurvesMapping, rows: "pd.DataFrame", told: list[str]) -> xr.Dataset:
    """The trace of a run by its rows; told: lists what was left out of it, and lost seeds."""
    run = rows["run"].iloc[0]
    costs = ["round", *(name for name in named.costs if rows[name].notna().any())]
    metrics = [name for name in named.metrics if np.isfinite(rows[name]).any()]
    if not metrics:
        raise FedatlasError(f"{log.where}: run '{run}' has no value of {', '.join(named.metrics)}")
    seeds, values, status, gaps = [], [], [], 0
    for seed, own in rows.groupby("seed"):
        where = f"{log.where}: run '{run}', seed {seed}"
        kept, ends = _records(own[costs], own[metrics])
        lost = bool(ends or own["lost"].any())
        if not kept.any():
            raise FedatlasError(f"{where}: no row has a value of all of {', '.join(metrics)}")
        gaps += int((~kept).sum()) * (not lost)
        told += [f"run '{run}', seed {seed} diverged: no numbers after row {kept.sum()}"] * lost
        found = own[kept]
        _check_values(where, found, costs[1:], metrics)
        seeds.append(int(str(seed)))
        values.append(found[[*costs, *metrics]].to_numpy(float))
        status.append("diverged" if lost else "ok")
    if gaps:
        told.append(
            f"run '{run}': {gaps} of {len(rows)} rows left out, which lack one of {metrics}"
        )
    # A diverged seed ends with NaN, others repeat their last record.
    longest = max(len(own) + (of != "ok") for own, of in zip(values, status, strict=True))
    for place, each in enumerate(values):
        last = each[-1:] if status[place] == "ok" else np.full_like(each[-1:], np.nan)
        values[place] = np.concatenate([each, np.repeat(last, longest - len(each), axis=0)])
    cube = np.stack(values)
    variables = {name: cube[:, :, place] for place, name in enumerate([*costs, *metrics])}
    if "bytes" in variables:
        variables[BYTES[0]] = variables.pop("bytes")
    stated: dict[str, Any] = {"hyper_parameters": {}, "network": None, "dataset": ""}
    about = {"algorithm": run, "specification": canonical_json(stated | {"seeds": seeds})}
    return build_trace(variables, status, seeds, about)


def _records(costs: "pd.DataFrame", metrics: "pd.DataFrame") -> tuple[np.ndarray, bool]:
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


def _check_values(
    where: str, rows: "pd.DataFrame", costs: Sequence[str], metrics: Sequence[str]
) -> None:
    for name in costs:
        fallen = rows[name].diff() < 0
        if fallen.any():
            raise FedatlasError(
                f"{where}: {name} falls to {rows[name][fallen].iloc[0]:g} at round "
                f"{rows['round'][fallen].iloc[0]:g}, but costs are all that was spent so far: "
                "write sum(COLUMN) where rows hold what each adds"
            )
    for name in metrics:
        outside = ~rows[name].between(0, 1)
        if name in LARGER_IS_BETTER and outside.any():
            raise FedatlasError(
                f"{where}: {name} is {rows[name][outside].iloc[0]:g}, but lies between 0 and 1: "
                f"write '{name}: COLUMN / 100' for percentages"
            )
