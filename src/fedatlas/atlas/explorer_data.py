"""What the explorer's page is told of an atlas: curves as packed columns, and all that names them.

Columns hold every healthy seed, as medians and bands at equal cost depend on the cost that a reader
chooses, and on the network that a reader declares.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import xarray as xr

from fedatlas.evaluation.costs import column, cost_axis, has_own_clock, is_counted, own_latency
from fedatlas.evaluation.levels import diverged, smallest
from fedatlas.evaluation.selection import hyper_parameters
from fedatlas.evaluation.verdicts import Verdict
from fedatlas.schema.claims import VERDICTS
from fedatlas.schema.cost_names import COSTS
from fedatlas.schema.measurements import MEASUREMENTS

#: Costs that a reader may choose as they are counted, in the order in which they are listed.
_SHOWN_COSTS = (
    "round",
    "iteration",
    "epoch",
    "update_epoch",
    "gradient_evaluations",
    "bytes",
    "epsilon",
    "simulated_time",
    "wall_time",
)
#: Labels of costs that traces do not name so.
_OWN_LABELS = {
    "round": "communication rounds (VFB²: updates)",
    "bytes": "bytes communicated",
    "simulated_time": "simulated time by the run's own clock (s)",
}
#: Costs of which the page computes the time under a network that a reader declares.
_NETWORK_COSTS = ("sequential_messages", "sequential_bytes", "sequential_gradients")
#: Which measurement a first view shows, of those that most of its runs have.
_FIRST_MEASUREMENTS = (
    "suboptimality",
    "gradient_norm",
    "test_auroc",
    "test_accuracy",
    "train_accuracy",
    "objective",
)
# Bits of a float32's 23 that are dropped: 20 are as good as six significant digits.
_DROPPED_BITS = 3


@dataclass
class ColumnStore:
    """Columns of numbers (rows, records), one behind the other as float32."""

    _parts: list[np.ndarray] = field(default_factory=list)
    _length: int = 0

    def add(self, values: np.ndarray) -> list[int]:
        """Store (seeds, records); returns [offset, rows]: seeds that are all alike are one row."""
        if len(values) > 1 and all(np.array_equal(values[0], row, True) for row in values[1:]):
            values = values[:1]
        place = [self._length, len(values)]
        self._parts.append(six_digits(values).ravel())
        self._length += values.size
        return place

    def planes(self) -> bytes:
        """All columns: every number's highest byte, then every next one; so they compress well."""
        numbers = np.concatenate([np.empty(0, np.float32), *self._parts]).astype("<f4")
        return numbers.view(np.uint8).reshape(-1, 4)[:, ::-1].T.tobytes()


def six_digits(values: np.ndarray) -> np.ndarray:
    """Values as float32, rounded to 20 bits behind the leading one: 5e-7 of a value at most."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    half = np.uint32((1 << (_DROPPED_BITS - 1)) - 1)
    odd = (bits >> np.uint32(_DROPPED_BITS)) & np.uint32(1)
    kept = np.uint32(0xFFFFFFFF ^ ((1 << _DROPPED_BITS) - 1))
    return ((bits + half + odd) & kept).view(np.float32)


def describe(
    atlas: xr.DataTree,
    verdicts: Sequence[Verdict],
    shows: Mapping[str, Sequence[str]],
    store: ColumnStore,
) -> dict[str, Any]:
    """The page's JSON: papers, experiments, runs and points, names of axes, and claims.

    shows: experiments without runs of their own → the runs that they show, experiment/run.
    Columns go to `store`; a point's `columns` says where: name → [offset, rows].
    """
    papers = [
        {
            "name": paper,
            "experiments": [
                _describe_experiment(name, experiment, store)
                for name, experiment in node.children.items()
            ],
        }
        for paper, node in atlas.children.items()
    ]
    return {
        "papers": papers,
        "costs": {name: _cost_label(name) for name in _SHOWN_COSTS},
        "measurements": {
            name: {
                "label": measured.long_name,
                "logarithmic": measured.logarithmic,
                # What falls by less than a decade is labelled badly by a logarithmic scale.
                "logarithmicOverDecade": name == "objective",
            }
            for name, measured in MEASUREMENTS.items()
        },
        "verdicts": VERDICTS,
        "firstMeasurements": _FIRST_MEASUREMENTS,
        "shows": {name: list(runs) for name, runs in shows.items()},
        # An experiment's name has no slash, a claim's own may.
        "claims": [
            {**asdict(verdict), "experiment": verdict.claim.split("/", 1)[0]}
            for verdict in sorted(verdicts, key=lambda verdict: verdict.claim.split("/", 1)[0])
        ],
    }


def _cost_label(name: str) -> str:
    if name in _OWN_LABELS:
        return _OWN_LABELS[name]
    cost = COSTS[name]
    return cost.long_name if cost.units == "1" else f"{cost.long_name} ({cost.units})"


def _describe_experiment(name: str, node: xr.DataTree, store: ColumnStore) -> dict[str, Any]:
    return {
        "name": name,
        **{key: str(node.attrs.get(key, "")) for key in ("title", "source", "notes", "dataset")},
        "runs": [_describe_run(run, child, store) for run, child in node.children.items()],
    }


def _describe_run(name: str, node: xr.DataTree, store: ColumnStore) -> dict[str, Any]:
    traces = {point: child.to_dataset() for point, child in node.children.items()}
    own = {point: hyper_parameters(trace) for point, trace in traces.items()}
    selected = node.attrs["selected"]
    return {
        "name": name,
        "title": str(node.attrs["title"]),
        "points": [
            {
                "name": point,
                "selected": point == selected,
                "label": _told_apart(own[point], own.values(), point),
                "hyperParameters": [[key, _text(value)] for key, value in own[point].items()],
                **_describe_trace(trace, store),
            }
            for point, trace in traces.items()
        ],
    }


def _told_apart(own: Mapping[str, Any], others: Any, point: str) -> str:
    """What a grid point has of its own; nothing where a run has one point."""
    points = list(others)
    if len(points) == 1:
        return ""
    varied = [key for key, value in own.items() if any(o.get(key) != value for o in points)]
    return ", ".join(f"{key.replace('_', ' ')} {_text(own[key])}" for key in varied) or point


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _describe_trace(trace: xr.Dataset, store: ColumnStore) -> dict[str, Any]:
    healthy = ~diverged(trace)
    columns = {name: store.add(values[healthy]) for name, values in _columns(trace)}
    return {
        "algorithm": str(trace.attrs["algorithm"]),
        "seeds": len(healthy),
        "diverged": int((~healthy).sum()),
        "records": trace.sizes["record"],
        "ownLatency": own_latency(trace) if has_own_clock(trace) else None,
        "columns": columns,
    }


def _columns(trace: xr.Dataset) -> Iterator[tuple[str, np.ndarray]]:
    """Costs and measurements (seeds, records) that the trace has, of those that are shown."""
    for name in (*_SHOWN_COSTS, *_NETWORK_COSTS):
        if is_counted(trace, name):
            # Rounds of parties that wait for nobody only cut time for records.
            yield name, cost_axis(trace, "exchanges" if name == "round" else name)
    for name in MEASUREMENTS:
        if name not in trace:
            continue
        values = column(trace, name)
        # Drawn down to the accuracy of the optimum.
        floor = smallest(name) if name == "suboptimality" else -np.inf
        yield name, np.maximum(values, floor)
