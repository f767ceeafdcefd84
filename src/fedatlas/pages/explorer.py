"""The atlas as a page to explore: plotting library, scripts and names in one HTML file.

Curves lie in files of their own in a folder beside it and are read when they are shown. Browsers
let a page that is opened as a file read nothing but scripts, so these files are scripts, which hand
over their content: packed columns of every healthy seed, since medians and bands at equal cost
depend on the cost that a reader chooses and on the network that a reader declares. The page needs
no network: its content security policy allows scripts beside it and those that it holds itself,
which are named by their digests; text out of traces stays text.
"""

import base64
import hashlib
import html
import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from plotly.offline import get_plotlyjs
from scipy.special import stdtrit

from fedatlas.evaluation.evidence import MARKS, in_full
from fedatlas.evaluation.horizon import in_words
from fedatlas.evaluation.levels import (
    cost_axis,
    diverged,
    drawn_values,
    has_own_clock,
    is_counted,
    own_latency,
    shown_floor,
    smallest,
)
from fedatlas.evaluation.selection import hyper_parameters, varied_hyper_parameters
from fedatlas.evaluation.verdicts import (
    Verdict,
    cases_of,
    read_verdicts,
    whole_claims,
    would_decide,
)
from fedatlas.extensions import projects
from fedatlas.figures.colours import METHODS, PALETTE, SEQUENCE, channels, mixed
from fedatlas.figures.kinds.region import place_of
from fedatlas.files import text_digest, write_text
from fedatlas.pages import SCRIPTS, STYLE, TEMPLATE
from fedatlas.pages.claim_rows import titled
from fedatlas.pages.claims_page import KEY, drawing, outcomes_html, scale_svg
from fedatlas.pages.claims_page import STYLE as INTERVAL_STYLE
from fedatlas.plan.build import build_plan
from fedatlas.plan.places import shipped_configuration
from fedatlas.schema.claims import OUTCOMES
from fedatlas.schema.experiments import Experiment
from fedatlas.schema.quantities import (
    AXES,
    COSTS,
    MEASUREMENTS,
    choice_label,
    declared_network,
)
from fedatlas.schema.runs import flat
from fedatlas.store.atlas import Atlas, as_atlas, open_marked
from fedatlas.store.netcdf import check_sums
from fedatlas.store.trace import judged
from fedatlas.store.views import round_digits

# Costs that a reader may choose, in the order of the list; rounds stand for exchanges.
_SHOWN_COSTS = ("round", "bytes", *(name for name in COSTS if name != "round"))
# A first view shows the first of these that most of its runs have.
_FIRST_MEASUREMENTS = (
    "suboptimality",
    "gradient_norm",
    "test_auroc",
    "test_accuracy",
    "train_accuracy",
    "objective",
)


# The page's ground and ink in either scheme, as its style says.
_SCHEMES = {"light": ("#ffffff", "#1a1f26"), "dark": ("#191f26", "#e7ebf0")}
_CONTRAST = 3.05  # of lines with their ground, by WCAG 3
# Up to so many seeds have a quantile of Student's t of their own, more share the last.
_SEEDS = 100

#: Writes the columns of a file and names it.
Keep = Callable[[bytes], str]


def write_explorer(
    atlas: Path, claims: list[Path], output: Path, config: Path | None = None
) -> None:
    """Write the page on which the atlas is explored, and its curves beside it.

    atlas: folder of results or of what was published. claims: verdicts. config: the folder of the
    configuration, if not the workflow's.
    """
    for file in claims:
        check_sums(file.parent, [file])  # of a published folder
    marked = open_marked(atlas, config)
    plan = marked.plan or build_plan(config or shipped_configuration(), *projects())
    shows = marked.shows if (atlas / "experiments").is_dir() else plan.runs_shown
    write_page(marked, claims, output, shows, plan.experiments)


def write_page(
    atlas: Atlas | Path,
    claims: Iterable[Path],
    output: Path,
    shows: Mapping[str, Sequence[str]] | None = None,
    experiments: Mapping[str, Experiment] | None = None,
) -> None:
    """Write the page about an atlas and its verdicts, and its folder.

    atlas: open, or what `open_atlas` opens. claims: files of verdicts (.csv). The folder has the
    page's name without .html. It holds every healthy seed of every grid point, a file for the
    selected point of a run and one for all others.
    shows: experiment without runs of its own → the runs that it shows, as experiment/run.
    experiments: of the configuration, whose networks, targets and maps the page proposes.
    FedatlasError names a damaged or foreign file.
    """
    verdicts = [verdict for file in claims for verdict in read_verdicts(file)]
    folder = output.with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)  # also of an atlas without runs
    before = set(folder.glob("*.js"))
    written: set[Path] = set()

    def keep(columns: bytes) -> str:
        packed = _packed(columns)
        # Named by its content: a page never shows the curves of another.
        name = text_digest(packed, 16)
        file = folder / f"{name}.js"
        if file not in written:
            write_text(file, f'hand("{name}", "{packed}");\n')
            written.add(file)
        return name

    tree = as_atlas(atlas)
    names = {"folder": folder.name, "atlas": tree.path.resolve().name}
    described = names | describe(tree, verdicts, shows or {}, experiments or {}, keep)
    library = get_plotlyjs()
    script = "\n".join(source.read_text(encoding="utf-8") for source in SCRIPTS)
    parts = {
        "allowed": f"{_digest(script)} {_digest(library)}",
        "style": STYLE.read_text(encoding="utf-8") + INTERVAL_STYLE,
        "outcomes": outcomes_html(),
        "key": html.escape(KEY),
        "scale": scale_svg(),
        # HTML parsers find in it neither the end of its element nor the start of another.
        "description": json.dumps(described, ensure_ascii=False, allow_nan=False).replace(
            "<", "\\u003c"
        ),
        "library": _packed(library.encode()),
        "script": script,
    }
    template = TEMPLATE.read_text(encoding="utf-8")
    # One pass does not search the inserted parts for further places.
    write_text(output, re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place[1]], template))
    for leftover in before - written:
        leftover.unlink(missing_ok=True)  # another process may have removed it


def _digest(script: str) -> str:
    """The name of a script in a content security policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def _packed(content: bytes) -> str:
    return base64.b64encode(zlib.compress(content, 6)).decode()


class ColumnStore:
    """Columns of numbers (rows, records), one behind the other as float32."""

    def __init__(self) -> None:
        self._parts: list[np.ndarray] = []
        self._length = 0

    def add(self, values: np.ndarray) -> list[int]:
        """Store (seeds, records) and return [offset, rows]; equal seeds become one row."""
        if len(values) > 1 and all(np.array_equal(values[0], row, True) for row in values[1:]):
            values = values[:1]
        place = [self._length, len(values)]
        self._parts.append(round_digits(values).ravel())
        self._length += values.size
        return place

    def planes(self) -> bytes:
        """The highest bytes of all numbers, then the next ones, which compresses well."""
        numbers = np.concatenate([np.empty(0, np.float32), *self._parts]).astype("<f4")
        return numbers.view(np.uint8).reshape(-1, 4)[:, ::-1].T.tobytes()


def describe(
    atlas: Atlas,
    verdicts: Sequence[Verdict],
    shows: Mapping[str, Sequence[str]],
    experiments: Mapping[str, Experiment],
    keep: Keep,
) -> dict[str, Any]:
    """The page's JSON: papers, experiments, runs and points, names of axes, and claims.

    shows: experiment without runs of its own → the runs that it shows, as experiment/run.
    `keep` takes the columns of a file and returns the name of the file, which is that of a point's
    `file`; the `columns` of a point name their places there: name → [offset, rows].
    """
    papers: list[dict[str, Any]] = [
        {
            "name": paper,
            "experiments": [
                _describe_experiment(atlas, f"{paper}/{name}", experiments.get(name), keep)
                for name in atlas.names(paper)
            ],
        }
        for paper in atlas
    ]
    held = {
        f"{experiment}/{run}"
        for paper in atlas
        for experiment in atlas.names(paper)
        for run in atlas.names(f"{paper}/{experiment}")
    }
    titles = {
        experiment["name"]: {run["name"]: run["title"] for run in experiment["runs"]}
        for paper in papers
        for experiment in paper["experiments"]
    }
    for name, runs in shows.items():
        places = [run.split("/") for run in runs if run in held]
        titles.setdefault(name, {run: titles[own][run] for own, run in places})
    verdicts = titled(verdicts, titles)
    cases = cases_of(verdicts)
    return {
        "papers": papers,
        "thinned": _thinning(atlas.attrs.get("thinned", "")),
        "methods": METHODS,
        "schemes": {name: _scheme(*pair) for name, pair in _SCHEMES.items()},
        "costs": {
            name: {"label": choice_label(one), "unit": {"byte": "B", "s": "s"}.get(AXES[one].units)}
            for name in _SHOWN_COSTS
            for one in ["exchanges" if name == "round" else name]
        },
        "measurements": {
            name: {
                "label": measured.long_name,
                "logarithmic": measured.logarithmic,
                "best": measured.best,
                "smallest": smallest(name),
                "floor": floor if np.isfinite(floor := shown_floor(name)) else None,
                # Logarithmic axes have few labels if values fall by less than a decade.
                "logarithmicOverDecade": name == "objective",
            }
            for name, measured in MEASUREMENTS.items()
        },
        "outcomes": [{"name": name, "mark": MARKS[name]} for name in OUTCOMES],
        "quantiles": stdtrit(np.arange(1, _SEEDS), 0.975).tolist(),
        "firstMeasurements": _FIRST_MEASUREMENTS,
        "shows": {
            name: own
            for name, runs in shows.items()
            if (own := [run for run in runs if run in held])
        },
        "claims": sorted(
            (
                _told(whole) | {"cases": [_told(case) for case in cases.get(whole.claim, [])]}
                for whole in whole_claims(verdicts)
            ),
            key=lambda claim: claim["experiment"],
        ),
    }


def _told(verdict: Verdict) -> dict[str, Any]:
    """What the page shows of a claim or a case."""
    declared = ("claim", "case", "paper", "source", "statement", "question", "outcome", "evidence")
    return {
        # The name of an experiment has no slash, the rest of a claim's may.
        "experiment": verdict.claim.split("/", 1)[0],
        **{name: getattr(verdict, name) for name in declared},
        "fragile": verdict.fragile,
        "tries": verdict.tries,
        "horizon": in_words(verdict.horizon),
        "decides": would_decide(verdict),
        "effect": in_full(verdict.effect) if verdict.effect else "",
        "drawing": drawing(verdict.effect) if verdict.effect else None,
    }


def _scheme(ground: str, ink: str) -> dict[str, Any]:
    """The colours of figures on this ground: mixed with ink until they stand out from it."""

    def shown(colour: str) -> str:
        return next(
            mixed_colour
            for share in range(0, 101, 5)
            if _contrast(mixed_colour := mixed(colour, ink, share / 100), ground) >= _CONTRAST
        )

    named = PALETTE | {"black": ink}
    return {
        "named": {name: shown(colour) for name, colour in named.items()},
        "sequence": [*map(shown, SEQUENCE)],
    }


def _contrast(*colours: str) -> float:
    """That of WCAG 2 between two colours."""
    numbers = np.array([*map(channels, colours)]) / 255
    linear = np.where(numbers <= 0.04045, numbers / 12.92, ((numbers + 0.055) / 1.055) ** 2.4)
    dark, light = np.sort(linear @ [0.2126, 0.7152, 0.0722])
    return float((light + 0.05) / (dark + 0.05))


def _thinning(told: str) -> str:
    """How many records traces keep, of what the headings of files say."""
    kept = [int(number) for number in re.findall(r"at most (\d+) records", told)]
    return " to ".join(map(str, dict.fromkeys([min(kept), max(kept)]))) if kept else ""


def _describe_experiment(
    atlas: Atlas, place: str, declared: Experiment | None, keep: Keep
) -> dict[str, Any]:
    told = atlas.attributes(place)
    runs = {run: _describe_run(atlas, f"{place}/{run}", keep) for run in atlas.names(place)}
    specs = {run: _specification(atlas, f"{place}/{run}") for run in runs}
    for run, facts in _told_apart({run: one["title"] for run, one in runs.items()}, specs).items():
        runs[run]["facts"] = facts
    return {
        "name": place.rpartition("/")[2],
        **{key: str(told.get(key, "")) for key in ("title", "source", "notes", "dataset")},
        "runs": [*runs.values()],
        **({} if declared is None else _proposed(declared)),
        "map": _map(getattr(declared and declared.figure, "pairs", {}), specs),
    }


def _specification(atlas: Atlas, run: str) -> dict[str, Any]:
    point = atlas.names(run)[0]
    declared: dict[str, Any] = json.loads(atlas.attributes(f"{run}/{point}")["specification"])
    return declared


def _told_apart(
    titles: Mapping[str, str], specs: Mapping[str, Mapping[str, Any]]
) -> dict[str, list[list[str]]]:
    """What differs between networks and partitions of runs that share a title, by name."""
    parts = ("network", "partition")
    facts = {
        run: dict(pair for part in parts for pair in _in_words(spec.get(part) or {}))
        for run, spec in specs.items()
    }
    found = {}
    for run, title in titles.items():
        like = [facts[other] for other, own in titles.items() if own == title]
        vary = [name for name in facts[run] if len({one.get(name) for one in like}) > 1]
        found[run] = [[name, facts[run][name]] for name in vary]
    return found


def _map(pairs: Mapping[str, str], specs: Mapping[str, Any]) -> dict[str, Any] | None:
    """Pairs of runs by the networks that they ran on, where the figure is such a map."""
    there = {run: other for run, other in pairs.items() if {run, other} <= {*specs}}
    if not there:
        return None
    places = {run: place_of(specs[run]) for run in there}
    across = sorted(
        {(place.network.straggler, place.network.latency) for place in places.values()},
        key=lambda pair: (pair[0] != "no straggler", pair),
    )
    up = sorted({(place.parties, place.network.spread) for place in places.values()})
    return {
        "across": [[straggler, f"{latency:g}"] for straggler, latency in across],
        "up": [[f"{parties} parties", f"{spread:g}"] for parties, spread in up],
        "cells": [
            {
                "runs": [run, there[run]],
                "column": across.index((place.network.straggler, place.network.latency)),
                "row": up.index((place.parties, place.network.spread)),
            }
            for run, place in places.items()
        ],
    }


def _proposed(experiment: Experiment) -> dict[str, Any]:
    """The first network and the targets that its figure and its claims name."""
    asked = [experiment.figure, *(claim.test for claim in experiment.claims)]
    costs = [
        cost
        for one in asked
        for cost in (*(getattr(one, "costs", None) or ()), getattr(one, "cost", None))
    ]
    networks = (declared_network(cost) for cost in costs if cost)
    levels = [
        (getattr(one, "measurement", None), level)
        for one in asked
        for level in getattr(one, "levels", (getattr(one, "target", None),))
    ]
    return {
        "network": next(map(asdict, filter(None, networks)), None),
        "targets": {name: target for name, target in reversed(levels) if name and target},
    }


def _describe_run(atlas: Atlas, place: str, keep: Keep) -> dict[str, Any]:
    traces = {point: judged(atlas.dataset(f"{place}/{point}")) for point in atlas.names(place)}
    declared = atlas.attributes(place)
    stores = {True: ColumnStore(), False: ColumnStore()}
    points = []
    for point, trace in traces.items():
        selected = bool(point == declared["selected"])
        told = _in_words(hyper_parameters(trace))
        points.append(
            {
                "name": point,
                "selected": selected,
                "label": _label(point, traces),
                # Steps first: readers look for them.
                "hyperParameters": sorted(told, key=lambda pair: "step_size" not in pair[0]),
                **_describe_trace(trace, stores[selected]),
            }
        )
    # Readers look at selected points first.
    files = {which: keep(stores[which].planes()) for which in {x["selected"] for x in points}}
    for described in points:
        described["file"] = files[described["selected"]]
    shown = [declared["selected"]] if declared["selected"] in traces else list(traces)
    return {
        "name": place.rpartition("/")[2],
        "title": atlas.title(place, *shown),
        # Whose problem runs made elsewhere say that they solve.
        "declared": next((str(one.attrs.get("problem", "")) for one in traces.values()), ""),
        "points": points,
    }


def _in_words(values: Mapping[str, Any]) -> list[list[str]]:
    """Names and values that are declared, also those within others."""
    return [[key, _text(x)] for key, x in flat(values).items() if not isinstance(x, Mapping | None)]


def _label(point: str, traces: Mapping[str, xr.Dataset]) -> str:
    """How a grid point differs from the others; nothing if a run has one point."""
    varied = varied_hyper_parameters(point, traces)
    told = ", ".join(f"{key.replace('_', ' ')} {_text(value)}" for key, value in varied.items())
    return told or (point if len(traces) > 1 else "")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _describe_trace(trace: xr.Dataset, store: ColumnStore) -> dict[str, Any]:
    healthy = ~diverged(trace)
    return {
        "algorithm": str(trace.attrs["algorithm"]),
        "seeds": len(healthy),
        "diverged": int((~healthy).sum()),
        "records": trace.sizes["record"],
        "ownLatency": own_latency(trace) if has_own_clock(trace) else None,
        "columns": {name: store.add(values[healthy]) for name, values in _columns(trace)},
    }


def _columns(trace: xr.Dataset) -> Iterator[tuple[str, np.ndarray]]:
    """The shown costs and measurements that the trace has, (seeds, records)."""
    for name in _SHOWN_COSTS:
        if is_counted(trace, name):
            # Rounds of parties that wait for nobody only say when to record.
            yield name, cost_axis(trace, "exchanges" if name == "round" else name)
    for name in MEASUREMENTS:
        if name in trace:
            yield name, drawn_values(trace, name)
