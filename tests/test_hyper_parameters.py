"""Hyper-parameters within mappings: in grids, points' names, tuning and selections."""

import json

import pytest

from catalogue_entry import entry
from experiment_files import BASE, config_folder
from fedatlas.algorithms import build_algorithm
from fedatlas.errors import FedatlasError
from fedatlas.evaluation.selection import select
from fedatlas.plan.build import build_plan
from fedatlas.schema.runs import Selection, at_point, flat
from trace_factory import make_trace

SCHEME = {"name": "constant", "alpha": 0.5, "beta": 0.1, "samples": 4}
SCHEME |= {"state_noise_scale": 0, "tracker_noise_scale": 0}
RUN = {
    "algorithm": "dp_gradient_tracking",
    "hyper_parameters": {"horizon": 9, "clipping": "none", "scheme": SCHEME},
    "grid": {"scheme.gamma": [0.1, "1e-2"]},
}
RING = {"kind": "directed_ring", "weights": "received"}
EXPERIMENT = BASE | {
    "partition": {"kind": "horizontal", "clients": 3},
    "graphs": {"states": RING, "trackers": RING},
    "rounds": 9,
    "record_every": 3,
    "seeds": [9],
    "runs": {"tracking": RUN},
}


def planned(folder, **experiments):
    catalogue = {BASE["dataset"]: entry(task="binary")}
    return build_plan(config_folder(folder / "config", catalogue, **experiments))


def test_a_grid_goes_into_a_mapping_and_names_points(tmp_path):
    plan = planned(tmp_path, grid=EXPERIMENT)
    points = {point: spec.hyper_parameters for (_, _, point), spec in plan.runs.items()}
    assert list(points) == ["scheme.gamma-0.1", "scheme.gamma-0.01"]
    for gamma, values in zip([0.1, 0.01], points.values(), strict=True):
        assert values == RUN["hyper_parameters"] | {"scheme": SCHEME | {"gamma": gamma}}
    assert all(build_algorithm(spec) for spec in plan.runs.values())


def test_what_is_chosen_within_a_mapping_is_what_tuned_runs_take(tmp_path):
    tuned = {"algorithm": RUN["algorithm"], "tuned_in": "demo-grid"}
    other = EXPERIMENT | {"seeds": [0, 1], "runs": {"tracking": tuned}}
    plan = planned(tmp_path, grid=EXPERIMENT, tuned=other)
    traces = {}
    for (experiment, _, point), spec in plan.runs.items():
        if experiment == "demo-grid":
            slope = spec.hyper_parameters["scheme"]["gamma"]
            trace = make_trace([[1.0, 1 / (1 + slope)]], schedule=[0, 9])
            trace.attrs["specification"] = json.dumps(spec.model_dump(mode="json"))
            traces[point] = trace
    record = select({"tracking": traces}, Selection())
    assert record["runs"]["tracking"]["selected"] == "scheme.gamma-0.1"
    assert record["runs"]["tracking"]["at_edge"] == ["scheme.gamma"]
    (waiting,) = (spec for spec in plan.runs.values() if spec.experiment == "demo-tuned")
    assert waiting.tuned(record).hyper_parameters["scheme"] == SCHEME | {"gamma": 0.1}
    assert build_algorithm(waiting.tuned(record)).effective_step_size == 0.1


@pytest.mark.parametrize("declared", [{"scheme": {"gamma": 1}}, {"scheme": "s2"}, {}])
def test_a_dotted_name_lies_within_a_mapping_that_does_not_state_it(declared):
    message = r"a\.yaml: runs\.x: grid 'scheme\.gamma' needs hyper_parameters with a mapping"
    with pytest.raises(FedatlasError, match=message):
        at_point(declared, {"scheme.gamma": 0.1}, "a.yaml: runs.x")


def test_what_is_stated_stays_as_it_is():
    declared = {"scheme": {"name": "s2"}, "horizon": 3}
    point = {"scheme.gamma": 0.1, "scheme.alpha": 2, "step": 1}
    found = at_point(declared, point, "here")
    assert declared == {"scheme": {"name": "s2"}, "horizon": 3}
    assert found == {"scheme": {"name": "s2", "gamma": 0.1, "alpha": 2}, "horizon": 3, "step": 1}
    assert flat(found) == found | {
        "scheme.name": "s2", "scheme.gamma": 0.1, "scheme.alpha": 2
    }  # fmt: skip
