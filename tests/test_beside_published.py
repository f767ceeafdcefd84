"""Published runs beside one's own: what makes them comparable, and what notes say of them."""

import json
from pathlib import Path

import pytest
import xarray as xr

import fedatlas
from atlas_factory import one_run, problem
from fedatlas.atlas.runs import atlas_runs
from fedatlas.errors import FedatlasError
from fedatlas.plan.closure import code_digest
from fedatlas.schema.models import validated
from fedatlas.schema.runs import RunSpec
from trace_factory import make_trace
from workflow_copy import ROOT

# What a trace records of a run over parties that this version can read.
OF_PARTIES = {
    **{"paper": "ours", "experiment": "ours-a", "run": "page", "point": "only"},
    **{"algorithm": "vfb2_svrg", "hyper_parameters": {}, "record_every": 10, "seeds": [0]},
    "partition": {"kind": "vertical", "parties": 8, "active": 3, "test": 100, "samples": None},
    "network": {"latency": 0.02},
}


def of_parties(**stated) -> xr.Dataset:
    return problem(make_trace([[1, 0.1]]), **(OF_PARTIES | stated))


def compared(tmp_path: Path, ours: xr.Dataset, theirs: xr.Dataset, *costs: str, **options):
    mine = one_run(tmp_path / "mine.nc", ours, "new", "mine-a9a")
    other = one_run(tmp_path / "published.nc", theirs)
    asked = ("gradient_norm", list(costs) or ["bytes"], 0.5)
    return fedatlas.compare(mine, *asked, against=other, **options)


def notes_of(*arguments, **options) -> list[str]:
    return compared(*arguments, **options).dataset.attrs["notes"]


# --- recorded specifications ---


@pytest.mark.parametrize("folder", sorted((ROOT / "published").iterdir()), ids=lambda it: it.name)
def test_every_published_run_has_a_specification_of_today(folder):
    with fedatlas.open_atlas(folder) as atlas:
        for run in atlas_runs(atlas, all_points=True):
            validated(RunSpec, json.loads(run.trace.attrs["specification"]), run.name)


@pytest.mark.parametrize("current", [True, False])
def test_code_that_is_not_that_of_today_is_named(tmp_path, current):
    here = code_digest(*validated(RunSpec, stated(of_parties()), "run").code)
    theirs = of_parties().assign_attrs(source_digest=here if current else "c" * 64)
    said = (
        f"ours-a/page: published by other code (cccccccccccc) than is installed here ({here[:12]})"
    )
    assert notes_of(tmp_path, of_parties(), theirs) == ([] if current else [said])


def stated(trace: xr.Dataset) -> dict:
    return json.loads(trace.attrs["specification"])


def test_a_method_is_missing_only_where_it_is(tmp_path):
    (note,) = notes_of(tmp_path, of_parties(), of_parties(algorithm="unheard_of"))
    assert note.endswith("by code cccccccccccc; its method unheard_of is not installed here")
    older = of_parties(network={"latency": 0.02, "mask_scale": 1.0})
    (note,) = notes_of(tmp_path, of_parties(), older)
    assert "not installed" not in note
    assert "is of another version of fedatlas than is installed here (network.mask_scale)" in note


def test_keys_that_a_recorded_run_lacks_have_their_usual_values(tmp_path):
    holders = OF_PARTIES["partition"] | {"label_holders": "first", "assignment": "shuffled"}
    found = compared(tmp_path, of_parties(partition=holders), of_parties())
    assert found.dataset.sizes["run"] == 2
    # Also where another part of what it states cannot be read today.
    older = of_parties(network={"latency": 0.02, "mask_scale": 1.0})
    assert compared(tmp_path, of_parties(partition=holders), older).dataset.sizes["run"] == 2
    every = of_parties(partition=holders | {"label_holders": "every_choice"})
    with pytest.raises(
        FedatlasError, match='label_holders: "every_choice" here, "first" published'
    ):
        compared(tmp_path, every, of_parties())
