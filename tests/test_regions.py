"""Claims on a map: claims in cells, networks of single runs, and the figure."""

import json
from typing import Any

import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure as Canvas
from pydantic import TypeAdapter, ValidationError

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.selection import choices, select
from fedatlas.figures.style import Shown
from fedatlas.schema.claims import ClaimTest
from fedatlas.schema.experiment_files import load_experiments
from fedatlas.schema.network_model import NetworkModel
from fedatlas.schema.runs import Selection
from figure_factory import figure_of
from judging import verdicts
from trace_factory import linear_trace

PACE = np.array([0.97, 0.98, 0.99, 1.01, 1.02, 1.03])
FASTER = {
    "kind": "cost_to_target",
    "relation": "faster",
    "cost": "simulated_time",
    "measurement": "suboptimality",
    "target": 1e-3,
}
PAIR = FASTER | {"first": "a", "second": "b"}
NESTED = {"kind": "region", "cells": {"1": PAIR, "2": PAIR}}


def on_network(run: str, seconds: Any, network: dict[str, Any], parties: int = 4) -> xr.Dataset:
    """A run that reaches any target in so many seconds per epoch."""
    trace = linear_trace(
        [0.01] * 6, records=401, run=run, parties=parties, seconds_per_epoch=seconds
    )
    specification = json.loads(trace.attrs["specification"])
    specification["network"] = NetworkModel.model_validate(network).model_dump(mode="json")
    trace.attrs["specification"] = json.dumps(specification)
    return trace


def pair(name: str, ratio: float, spread: float = 0.0) -> dict[str, xr.Dataset]:
    noise = PACE ** (spread / 0.02)
    return {
        f"a-{name}": on_network(f"a-{name}", 10 * ratio * noise, {}),
        f"b-{name}": on_network(f"b-{name}", 10.0, {}),
    }


def test_a_claim_comes_out_as_its_worst_cell():
    runs = pair("here", 0.7) | pair("there", 0.8) | pair("beyond", 1.5)
    cells = {name: {"first": f"a-{name}", "second": f"b-{name}"} for name in ("here", "there")}
    whole, *cases = verdicts({"kind": "region", "test": FASTER, "cells": cells}, **runs)
    assert (whole.outcome, [case.case for case in cases]) == ("reproduced", ["here", "there"])
    assert whole.evidence == "2 cases: 2 reproduced"
    cells["beyond"] = {"first": "a-beyond", "second": "b-beyond"}
    whole, *cases = verdicts({"kind": "region", "test": FASTER, "cells": cells}, **runs)
    # One of three: six seeds contradict one case, not any of several (Holm).
    assert whole.outcome == "undecided"
    assert whole.evidence == "3 cases: 2 reproduced, 1 contradicted"
    alone = [
        verdicts(FASTER | {"first": f"a-{name}", "second": f"b-{name}"}, **runs)[0]
        for name in cells
    ]
    assert [case.effect for case in cases] == [case.effect for case in alone]


def test_a_region_looks_at_what_its_cells_look_at():
    test = TypeAdapter(ClaimTest).validate_python(
        {
            "kind": "region",
            "test": FASTER,
            "cells": {"1": {"first": "a", "second": "b"}, "2": {"first": "a", "second": "c"}},
        }
    )
    assert test.runs == ("a", "b", "c")
    assert (test.measured, test.counted) == (("suboptimality",), ("simulated_time",))
    assert test.modules == tuple(
        f"fedatlas.evaluation.claims.{name}" for name in ("region", "compared")
    )
    assert test.of_choice


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"test": FASTER, "cells": {"1": {"first": "a", "second": "b"}}}, "at least 2 items"),
        ({"test": FASTER, "cells": ["a", "b"]}, "'test' states what 'cells'"),
        ({"test": FASTER, "cells": {"1": {"first": "a"}, "2": {"first": "b"}}}, "second"),
        ({"test": NESTED, "cells": {"1": {}, "2": {}}}, "'1' is a region"),
    ],
)  # fmt: skip
def test_regions_that_make_no_sense_are_refused(declared, message):
    with pytest.raises(ValidationError, match=message):
        TypeAdapter(ClaimTest).validate_python({"kind": "region"} | declared)


def drawn_map(**extra: dict[str, Any]) -> Canvas:
    traces, pairs = {}, {}
    for parties in (4, 8):
        for latency in (1e-7, 1e-5, 1e-3):
            for spread in (0.0, 0.5):
                for party in (None, 0):
                    name = f"l{latency:g}-s{spread:g}-{party}-q{parties}"
                    network: dict[str, Any] = {"latency": latency, "straggler": 1.4}
                    network |= {"straggler_party": party} | extra
                    if spread:
                        network["compute"] = {"kind": "lognormal", "spread": spread}
                    ratio = 0.6 + 0.15 * (np.log10(latency) + 7) - 0.2 * spread
                    base = 10 * (4 / parties) ** (1 - 0.2 * (np.log10(latency) + 7))
                    pairs[f"a-{name}"] = f"b-{name}"
                    times = {"a": base * ratio * PACE, "b": base}
                    for form, seconds in times.items():
                        run = f"{form}-{name}"
                        traces[run] = {"p": on_network(run, seconds, network, parties)}
                        traces[run]["p"].attrs["point"] = "p"
    short = tuple(run for run in pairs if "l1e-07-s0-None" in run)
    figure = figure_of(
        kind="region", measurement="suboptimality", pairs=pairs, outlined={"exponents": short}
    )
    rule = Selection(measurement="objective")
    titles = {run: "VFB²-SVRG" if run.startswith("a") else "VFB-SVRG" for run in traces}
    shown = Shown(titles, traces, choices(select(traces, rule)), rule)
    return figure.compose("A map", shown)


def test_the_map_has_a_panel_for_each_straggler_and_number_of_parties():
    canvas = drawn_map()
    panels = [place for place in canvas.axes if place.images]
    assert [place.get_title() for place in panels] == [
        "4 parties, a passive party 1.4× slower",
        "4 parties, a dominator 1.4× slower",
        "8 parties, a passive party 1.4× slower",
        "8 parties, a dominator 1.4× slower",
        "4 to 8 parties, a passive party 1.4× slower",
        "4 to 8 parties, a dominator 1.4× slower",
    ]
    told = [text.get_text() for text in panels[0].texts]
    assert told == ["0.60\n✓", "0.90\n✓", "1.20\n✗", "0.50\n✓", "0.80\n✓", "1.10\n✗"]
    slopes = [text.get_text() for text in panels[4].texts]
    assert slopes[:3] == ["1.00\n✓", "0.60\n✗", "0.20\n✗"]
    assert [len(place.patches) for place in panels] == [0, 0, 0, 0, 1, 0]  # one cell is outlined
    assert canvas.legends[0].get_texts()[-1].get_text() == "declared to hold here"
    assert [tick.get_text() for tick in panels[4].get_xticklabels()] == ["0.1", "10", "1000"]


def test_times_without_an_axis_are_refused():
    with pytest.raises(FedatlasError, match="constant and lognormal times, not measured"):
        drawn_map(compute={"kind": "measured", "times": [1, 2]})


EXPERIMENT = """
paper: ours
title: t
source: s
dataset: breast-cancer
partition: {kind: vertical, parties: 3, active: 2}
network: NETWORK
objective: {name: logistic_l2, weight: 1.0e-2}
rounds: 10
record_every: 5
seeds: [0]
runs:
  usual: {algorithm: vfb2_sgd, hyper_parameters: {step_size: 0.1}}
  far:
    algorithm: vfb2_sgd
    hyper_parameters: {step_size: 0.1}
    network: {latency: 1.0, straggler_party: PARTY}
"""


@pytest.fixture
def loaded(tmp_path):
    def of(network: str = "{latency: 0.5}", party: int = 2, other: str = "one-a") -> Any:
        folder = tmp_path / "one"
        folder.mkdir(exist_ok=True)
        text = EXPERIMENT.replace("PARTY", str(party))
        (folder / "a.yaml").write_text(text.replace("NETWORK", network), encoding="utf-8")
        (folder / "b.yaml").write_text(text.replace("NETWORK", other), encoding="utf-8")
        return load_experiments(tmp_path)

    return of


def test_networks_are_those_of_runs_or_of_the_experiment_or_of_another(loaded):
    found = loaded()
    for name in ("one-a", "one-b"):
        assert found[name].network_of("usual").latency == 0.5
        assert found[name].network_of("far").latency == 1.0


def test_networks_that_fit_nothing_are_refused(loaded):
    with pytest.raises(FedatlasError, match="key 'network': 'one-c' is no other experiment that"):
        loaded(other="one-c")
    with pytest.raises(FedatlasError, match=r"runs\.far: straggler_party: 3 is none of its 3 part"):
        loaded(party=3)
