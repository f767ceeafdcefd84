"""The atlas against the traces it was joined from: bit for bit, lazily, and by plain loops."""

import json
import logging
import math
import subprocess
import sys
import time
import warnings
from itertools import pairwise
from pathlib import Path

import h5py
import netCDF4
import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import fedatlas
from fedatlas.errors import FedatlasError
from fedatlas.store import steps
from fedatlas.store.atlas import atlas_runs
from fedatlas.store.joining import (
    Joined,
    JoinedExperiment,
    JoinedPaper,
    JoinedRun,
    join_papers,
    join_traces,
)
from fedatlas.store.lazy_groups import open_group
from fedatlas.store.netcdf import seal, write_netcdf
from fedatlas.store.trace import read_trace, write_trace
from trace_factory import auroc_trace, make_trace, tiered_trace, vertical_trace

NETWORK = "network(latency=0.05, bandwidth=1e6, gradient=1e-5)"


def placed(trace, place):
    """The trace as that of /paper/experiment/run/point."""
    keys = ("paper", "experiment", "run", "point")
    return trace.assign_attrs(dict(zip(keys, place.split("/"), strict=True)))


def file_of(folder, place):
    _, experiment, run, point = place.split("/")
    return folder / experiment / "traces" / run / f"{point}.nc"


def described(paper, places):
    """What is joined for a paper, in the order of places; a run's first point is selected."""
    tree = {}
    for place in places:
        own, experiment, run, point = place.split("/")
        if own == paper:
            tree.setdefault(experiment, {}).setdefault(run, []).append(point)
    experiments = tuple(
        JoinedExperiment(
            name=experiment,
            title=f"«{experiment}» – f* ≤ ε",
            source="",
            notes="first line\nsecond",
            dataset="a9a",
            runs=tuple(
                JoinedRun(
                    name=run,
                    title=f"Run {run}",
                    code="fedatlas.errors",
                    selected_in=experiment,
                    points=points,
                )
                for run, points in runs.items()
            ),
        )
        for experiment, runs in tree.items()
    )
    chosen = {(name, run): points[0] for name, runs in tree.items() for run, points in runs.items()}
    return JoinedPaper(paper=paper, experiments=experiments), chosen


def join(folder, traces):
    """Write traces by place and join both levels; returns the atlas' path."""
    for place, trace in traces.items():
        write_trace(placed(trace, place), file_of(folder, place))
    papers = sorted({place.split("/")[0] for place in traces})
    for paper in papers:
        join_traces(*described(paper, traces), folder, folder / "atlas" / f"{paper}.nc")
    path = folder / "atlas" / "atlas.nc"
    join_papers([folder / "atlas" / f"{paper}.nc" for paper in papers], path)
    return path


@pytest.fixture
def opened(tmp_path):
    """Joins traces by place and opens the atlas."""
    trees = []

    def joined(traces):
        trees.append(fedatlas.open_atlas(join(tmp_path, traces)))
        return trees[-1]

    yield joined
    for tree in trees:
        tree.close()


def same_stored(one, other):
    """Both groups hold the same, as the netCDF library sees it without decoding anything."""
    one.set_auto_maskandscale(False)
    other.set_auto_maskandscale(False)
    assert one.ncattrs() == other.ncattrs()
    for name in one.ncattrs():
        assert type(one.getncattr(name)) is type(other.getncattr(name))
        assert one.getncattr(name) == other.getncattr(name)
    assert {n: len(d) for n, d in one.dimensions.items()} == {
        n: len(d) for n, d in other.dimensions.items()
    }
    assert list(one.variables) == list(other.variables)
    for name, variable in one.variables.items():
        copy = other.variables[name]
        assert (variable.dtype, variable.dimensions) == (copy.dtype, copy.dimensions)
        assert variable.ncattrs() == copy.ncattrs()
        for key in variable.ncattrs():
            np.testing.assert_equal(variable.getncattr(key), copy.getncattr(key))
        if variable.dtype is str:
            assert variable[...].tolist() == copy[...].tolist()
        else:
            assert variable[...].tobytes() == copy[...].tobytes()


any_float = st.floats(width=64, allow_nan=True, allow_infinity=True, allow_subnormal=True)


@st.composite
def traces_of_any_shape(draw):
    seeds, records = draw(st.integers(1, 4)), draw(st.integers(1, 5))
    numbers = draw(st.lists(any_float, min_size=seeds * records, max_size=seeds * records))
    trace = make_trace(np.full((seeds, records), 0.5))
    trace["objective"] = ("seed", "record"), np.reshape(numbers, (seeds, records))
    # Of one to four bytes each; texts cannot hold a zero byte in netCDF.
    text = st.text("a 9\n\t\"'\\\x01\x7fé≤\u2028\ufeff\U0001f600\U0010ffff", max_size=20)
    trace["status"] = "seed", draw(st.lists(text, min_size=seeds, max_size=seeds))
    return trace.assign_attrs(
        warnings=draw(text),
        effective_step_size=draw(any_float.filter(lambda number: not math.isnan(number))),
        some_count=draw(st.integers(-(2**62), 2**62)),
    ).assign_coords(seed=draw(st.permutations(range(2**40, 2**40 + seeds))))


@settings(max_examples=8, deadline=None)
@given(st.lists(traces_of_any_shape(), min_size=1, max_size=3))
def test_traces_come_through_bit_for_bit(tmp_path_factory, traces):
    folder = tmp_path_factory.mktemp("atlas")
    places = [f"{'ab'[i % 2]}/figure-{i % 2}/run/point-{i}" for i in range(len(traces))]
    path = join(folder, dict(zip(places, traces, strict=True)))
    with netCDF4.Dataset(path) as atlas:
        for place in places:
            with netCDF4.Dataset(file_of(folder, place)) as original:
                same_stored(original, atlas[place])
    with fedatlas.open_atlas(path) as atlas:
        for place in places:
            xr.testing.assert_identical(
                atlas[place].to_dataset(), read_trace(file_of(folder, place))
            )


PLACES = (
    "vfb2/demo-vfb2/nonf/only",
    "fedpage/demo-fedpage/scaffold/step_size-0.1",
    "fedpage/demo-fedpage/scaffold/step_size-0.01",
    "fedpage/demo-fedpage/fedavg/only",
    "fedpage/another-one/fedavg/only",
)
EVERYWHERE = {place: make_trace(np.ones((2, 3))) for place in PLACES}
ONE = {PLACES[0]: make_trace(np.ones((2, 3)))}


def test_groups_are_in_the_order_of_files_and_say_what_they_are(opened):
    atlas = opened(EVERYWHERE)
    assert atlas.attrs == {"format": "fedatlas atlas 1"}
    # Papers by name, the rest as given.
    points = [node.path.removeprefix("/") for node in atlas.to_datatree().leaves]
    assert points == [*PLACES[1:], PLACES[0]]
    assert atlas["fedpage/demo-fedpage"].attrs == {
        "title": "«demo-fedpage» – f* ≤ ε",
        "source": "",
        "notes": "first line\nsecond",
        "dataset": "a9a",
    }
    assert atlas["fedpage/demo-fedpage/scaffold"].attrs == {
        "title": "Run scaffold",
        "selected": "step_size-0.1",
        "code": "fedatlas.errors",
        "stale": "no",
    }


def test_the_same_traces_give_the_same_bytes(tmp_path):
    first = join(tmp_path, EVERYWHERE).read_bytes()
    time.sleep(1.1)  # HDF5 would note times in whole seconds
    assert join(tmp_path, EVERYWHERE).read_bytes() == first


def test_values_are_read_when_they_are_used(opened):
    atlas = opened(ONE)
    trace = atlas[PLACES[0]].to_dataset()
    indexes = {"seed", "record"}
    assert {name for name, values in trace.variables.items() if values._in_memory} == indexes
    assert trace["train_accuracy"].to_numpy().tolist() == [[0.9, 0.9, 0.9]] * 2


def test_a_group_is_what_xarray_itself_reads(tmp_path):
    """Also what traces do not have: lengths without labels, lists and texts beyond ASCII."""
    made = xr.Dataset(
        {
            "some": (("a", "b"), np.arange(6, dtype=np.int16).reshape(2, 3), {"odd": [1, 2, 3]}),
            "one": ((), 2.5, {"units": "1", "note": "f* ≤ ε"}),
            "when": ("a", np.array(["2020-01-01", "2021-01-01"], "M8[ns]")),
            "named": ("b", np.array(["x", "", "é"], dtype=object)),
        },
        coords={"a": [3, 4]},
        attrs={"empty": "", "count": 3, "factor": 0.5},
    )
    made.to_netcdf(tmp_path / "made.nc", engine="netcdf4")
    with h5py.File(tmp_path / "made.nc") as file:
        read = open_group(file)
        xr.testing.assert_identical(read.copy(deep=True), xr.load_dataset(tmp_path / "made.nc"))
        assert read["some"][1, ::2].to_numpy().tolist() == [3, 5]


@pytest.mark.parametrize("kind", [h5py.SoftLink("/vfb2"), h5py.ExternalLink("other.nc", "/"), None])
def test_a_group_is_checked_when_it_is_opened(tmp_path, kind):
    path = join(tmp_path, EVERYWHERE)
    with h5py.File(path, "r+") as file:
        place = file[PLACES[1]]
        place["more"] = kind or file[PLACES[0]]["objective"]
    seal(path)
    with fedatlas.open_atlas(path) as atlas:
        _ = atlas[PLACES[0]], atlas[PLACES[2]]
        with pytest.raises(FedatlasError, match=f"{path}: .*'more' (is a link|stands for)"):
            _ = atlas[PLACES[1]]
        with pytest.raises(FedatlasError, match=r"'more'"):
            fedatlas.compare(atlas, "gradient_norm", "round", 0.5)
        for missing in ("vfb2/nothing", f"{PLACES[0]}/objective"):
            with pytest.raises(KeyError, match=missing):
                _ = atlas[missing]


def test_importing_the_package_imports_nothing_heavy():
    program = (
        "import sys, fedatlas; heavy = {'numpy', 'xarray', 'h5py', 'netCDF4', 'torch', 'scipy'}; "
        "assert not heavy & set(sys.modules); fedatlas.open_atlas, fedatlas.compare; "
        "assert 'xarray' in sys.modules and 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = fedatlas.nothing


def with_another_bit(file):
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 4
    file.write_bytes(content)


def with_attributes(**attributes):
    return lambda file: write_trace(read_trace(file).assign_attrs(attributes), file)


DAMAGES = {
    "truncated": lambda file: file.write_bytes(file.read_bytes()[:-2000]),
    "foreign": xr.Dataset({"a": 1}).to_netcdf,
    "foreign but sealed": lambda file: write_netcdf(xr.Dataset({"a": 1}), file),
    "with another bit": with_another_bit,
    "other text": lambda file: file.write_text("not netCDF at all"),
    "of another run": with_attributes(run="other"),
    "of an older version": with_attributes(format="fedatlas trace 0"),
    "missing": Path.unlink,
}


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("truncated", "not a readable netCDF file"),
        ("foreign", "has no seal at its end"),
        ("with another bit", "its seal does not match"),
        ("foreign but sealed", "is not a trace of this version"),
        ("other text", "not a readable netCDF file"),
        ("of another run", "holds the trace fedpage/demo-fedpage/other/only, but stands where"),
        ("of an older version", "'fedatlas trace 0'"),
        ("missing", "there is no such file"),
    ],
)
def test_a_wrong_file_is_refused_by_name_and_nothing_is_merged(tmp_path, damage, said):
    join(tmp_path, EVERYWHERE)
    output = tmp_path / "atlas" / "fedpage.nc"
    before, file = output.read_bytes(), file_of(tmp_path, PLACES[3])
    DAMAGES[damage](file)
    with pytest.raises(
        FedatlasError, match=r"ove it away and run again|ove it to its own place|run snakemake to"
    ) as refusal:
        join_traces(*described("fedpage", PLACES), tmp_path, output)
    assert str(file) in str(refusal.value) and said in str(refusal.value)
    assert output.read_bytes() == before
    assert {entry.suffix for entry in output.parent.iterdir()} == {".nc"}
    assert len(list(output.parent.iterdir())) == 3


@pytest.mark.parametrize("damage", ["truncated", "foreign", "other text"])
def test_wrong_atlas_files_are_refused_by_name(tmp_path, damage):
    path = join(tmp_path, EVERYWHERE)
    paper, other = path.with_name("fedpage.nc"), path.with_name("vfb2.nc")
    for file in (path, paper):
        DAMAGES[damage](file)
    with pytest.raises(FedatlasError, match=str(path)):
        fedatlas.open_atlas(path)
    with pytest.raises(FedatlasError, match=str(paper)):
        join_papers([other, paper], path)
    with pytest.raises(FedatlasError, match=r"missing\.nc"):
        fedatlas.open_atlas(tmp_path / "missing.nc")


def test_a_papers_file_under_another_name_is_refused(tmp_path):
    path = join(tmp_path, ONE)
    renamed = path.with_name("vfb2.nc").rename(path.with_name("tdcd.nc"))
    with pytest.raises(FedatlasError, match=r"tdcd\.nc: holds vfb2, but must hold the paper tdcd"):
        join_papers([renamed], path)


def test_an_atlas_of_no_paper_is_empty(tmp_path):
    join_papers([], tmp_path / "atlas.nc")
    with fedatlas.open_atlas(tmp_path / "atlas.nc") as atlas:
        assert list(atlas) == [] and list(atlas_runs(atlas)) == []


def test_leftovers_are_left_out_and_named(tmp_path, caplog):
    stray = tmp_path / "demo-fedpage" / "traces" / "fedavg" / "step_size-7.nc"
    stray.parent.mkdir(parents=True)
    DAMAGES["other text"](stray)
    with caplog.at_level(logging.WARNING):
        path = join(tmp_path, EVERYWHERE)
    assert [str(stray) in message for message in caplog.messages] == [True]
    with fedatlas.open_atlas(path) as atlas:
        assert len(atlas.to_datatree().leaves) == len(PLACES)


def test_commands_join_both_levels(tmp_path):
    traces = {place: make_trace(np.ones((2, 3))) for place in PLACES[1:4]}
    join(tmp_path, traces)
    paper, chosen = described("fedpage", traces)
    for (name, run), point in chosen.items():
        selection = tmp_path / name / "selection.json"
        record = json.loads(selection.read_text()) if selection.exists() else {"runs": {}}
        record["runs"][run] = {
            "selected": point,
            "selected_by_seed": [point],
            "candidates": [],
            "at_edge": [],
            "tried": 1,
        }
        selection.write_text(json.dumps(record))
    output = tmp_path / "again" / "fedpage.nc"
    steps.join_traces(paper, tmp_path, output)
    assert output.read_bytes() == (tmp_path / "atlas" / "fedpage.nc").read_bytes()
    whole = tmp_path / "again" / "atlas.nc"
    steps.join_papers([output], {}, whole, whole.with_name("contents.json"))
    assert whole.read_bytes() == (tmp_path / "atlas" / "atlas.nc").read_bytes()
    (tmp_path / "demo-fedpage" / "selection.json").write_text('{"runs": {}}')
    with pytest.raises(FedatlasError, match="demo-fedpage: its selection has no run 'scaffold'"):
        steps.join_traces(paper, tmp_path, output)


def falling(seeds, records, *, generator):
    steps = generator.uniform(0.0, 0.4, (seeds, records - 1))
    return 10.0 ** -np.concatenate([np.zeros((seeds, 1)), steps.cumsum(axis=1)], axis=1)


def counted(values, generator, **options):
    """A star's trace with uneven costs by seed and all that a network needs."""
    seeds, records = values.shape
    spent = np.cumsum(generator.uniform(0.5, 2.0, (3, seeds, records)), axis=2)
    spent = np.where(np.isnan(values), np.nan, spent)
    return make_trace(
        values,
        cost_scale=generator.uniform(0.5, 2.0, seeds),
        sequential_messages=spent[0],
        sequential_bytes=1e5 * spent[1],
        sequential_gradients=1e3 * spent[2],
        **options,
    )


def cost_by_loop(trace, seed, target, cost):
    """Cost where a line of logarithms between two records meets the target; ∞ if none does.

    A start that meets it costs as much as the next record; who diverged has reached nothing.
    """
    if trace["status"].values[seed] == "diverged":
        return math.inf
    costs = {name: each.values[seed] for name, each in trace.variables.items() if each.ndim == 2}
    if cost == "bytes":
        spent = costs["bytes_up"] + costs["bytes_down"]
    elif cost == NETWORK:
        spent = 0.05 * costs["sequential_messages"] + costs["sequential_bytes"] / 1e6
        spent = spent + 1e-5 * costs["sequential_gradients"]
    else:
        spent = costs[cost]
    losses = trace["gradient_norm"].values[seed]
    for record, loss in enumerate(losses):
        if loss <= target:
            if record == 0:
                return spent[1]
            before = losses[record - 1]
            share = math.log(before / target) / math.log(before / loss)
            return spent[record - 1] + share * (spent[record] - spent[record - 1])
    return math.inf


@pytest.mark.parametrize("seed", range(3))
def test_costs_to_a_target_are_those_of_a_plain_loop(opened, seed):
    generator = np.random.default_rng(seed)
    values = [falling(n, 12, generator=generator) for n in (4, 3, 1)]
    values[1][0, 5:] = np.nan
    traces = dict(zip(PLACES[1:4], [counted(array, generator) for array in values], strict=True))
    traces[PLACES[2]] = traces[PLACES[2]].assign_coords(seed=[7, 2, 3])
    atlas = opened(traces)
    costs, target = ["round", "bytes", NETWORK, "gradient_evaluations"], 10**-1.5
    compared = fedatlas.compare(atlas, "gradient_norm", costs, target, all_points=True).dataset
    assert compared["seed"].values.tolist() == [0, 1, 2, 3, 7]
    assert compared.attrs["left_out"] == []
    for i, place in enumerate(PLACES[1:4]):
        trace, got = traces[place], compared.isel(run=i)
        labels = [str(got[key].item()) for key in ("paper", "experiment", "run", "point")]
        assert "/".join(labels) == place
        assert set(got["clock"].values) == {"counted"}
        for name in costs:
            spent = [cost_by_loop(trace, s, target, name) for s in range(trace.sizes["seed"])]
            by_seed = got["cost_to_target"].sel(cost=name)
            np.testing.assert_allclose(by_seed.sel(seed=trace["seed"].values), spent, rtol=1e-12)
            absent = ~by_seed["seed"].isin(trace["seed"].values)
            assert np.isnan(by_seed.values[absent.values]).all()
            reached = [cost for cost in spent if math.isfinite(cost)]
            assert got["seeds"].item() == len(spent)
            assert got["seeds_reached"].item() == len(reached)
            centre, low, high = (
                got[key].sel(cost=name).item() for key in ("centre", "low", "high")
            )
            if len(reached) < 2:
                continue
            logs = [math.log(cost) for cost in reached]
            mean, half = sum(logs) / len(logs), stats.t.ppf(0.975, len(logs) - 1)
            spread = math.sqrt(sum((x - mean) ** 2 for x in logs) / (len(logs) - 1))
            half *= spread / math.sqrt(len(logs))
            assert centre == pytest.approx(math.exp(mean), rel=1e-9)
            assert low == pytest.approx(math.exp(mean - half), rel=1e-9)
            whole = len(reached) == len(spent)
            assert high == (pytest.approx(math.exp(mean + half), rel=1e-9) if whole else math.inf)


def test_only_selected_points_of_wanted_experiments_are_compared(opened):
    atlas = opened({place: make_trace(np.array([[1.0, 0.1, 0.01]] * 2)) for place in PLACES})

    def names(**options):
        compared = fedatlas.compare(atlas, "gradient_norm", "round", 0.05, **options).dataset
        keys = ("paper", "experiment", "run", "point")
        return ["/".join(row) for row in zip(*(compared[k].values for k in keys), strict=True)]

    assert names() == [PLACES[1], PLACES[3], PLACES[4], PLACES[0]]
    assert names(all_points=True) == [*PLACES[1:], PLACES[0]]
    assert names(experiments=["*-vfb2", "another-one"]) == [PLACES[4], PLACES[0]]
    with pytest.raises(FedatlasError, match=r"'fmgda-\*' matches none .* demo-fedpage"):
        names(experiments=["fmgda-*"])


def test_never_reached_free_and_single_seeds(opened):
    plateau = make_trace(np.ones((3, 4)), run="plateau")
    one = make_trace(np.array([[1.0, 0.1, 0.01]]), run="one")
    never = make_trace(np.ones((1, 3)), run="never")
    free = make_trace(np.array([[1.0, 0.1, 0.01]] * 2), run="free")
    free["bytes_up"][:], free["bytes_down"][:] = 0.0, 0.0
    places = [f"ours/figure-a/{name}/only" for name in ("plateau", "one", "never", "free")]
    atlas = opened(dict(zip(places, (plateau, one, never, free), strict=True)))
    compared = fedatlas.compare(atlas, "gradient_norm", "bytes", 0.05).dataset.sel(cost="bytes")
    bounds = {
        run: [compared[key].sel(run=run).item() for key in ("centre", "low", "high")]
        for run in compared["run"].values
    }
    assert bounds["plateau"] == [math.inf] * 3
    # 0.05 lies at a share of log(0.1 / 0.05) / log(10) of the way from the second to the third.
    assert bounds["one"] == [pytest.approx(10_000 * (1 + math.log10(2))), 0.0, math.inf]
    assert bounds["never"] == [math.inf, 0.0, math.inf]
    assert bounds["free"] == [0.0, 0.0, 0.0]


def own_clock(latency):
    trace = vertical_trace(np.array([[1.0, 0.1, 0.01]] * 2))
    specification = json.loads(trace.attrs["specification"]) | {"network": {"latency": latency}}
    return trace.assign_attrs(specification=json.dumps(specification))


def test_own_clocks_need_the_declared_latency(opened):
    traces = {
        "vfb2/figure-a/same/only": own_clock(0.05),
        "vfb2/figure-a/other/only": own_clock(1e-6),
        "tdcd/figure-b/silos/only": tiered_trace(np.array([[1.0, 0.1, 0.01]] * 2)),
    }
    atlas = opened(traces)
    with pytest.warns(UserWarning, match=r"figure-a/other/only: .* 1e-06 s, not 0\.05 s"):
        compared = fedatlas.compare(atlas, "objective", [NETWORK, "latency(10)"], 0.35).dataset
    times = compared["cost_to_target"].sel(cost=NETWORK)
    trace = traces["vfb2/figure-a/same/only"]
    clock, values = trace["simulated_time"].values, trace["objective"].values
    share = np.log(values[:, 1] / 0.35) / np.log(values[:, 1] / values[:, 2])
    same = clock[:, 1] + share * (clock[:, 2] - clock[:, 1])
    np.testing.assert_allclose(times.sel(run="same"), same, rtol=1e-12)
    assert np.isnan(times.sel(run="other")).all() and np.isnan(times.sel(run="silos")).all()
    assert compared["clock"].sel(cost=NETWORK).values.tolist() == ["counted", "own", "own"]
    assert set(compared["clock"].sel(cost="latency(10)").values) == {"counted"}
    assert compared.attrs["left_out"] == [
        f"figure-b/silos/only: {NETWORK}: is not counted",
        "figure-a/same/only: latency(10): is not counted",
        f"figure-a/other/only: {NETWORK}: its own clock has the latency 1e-06 s, not 0.05 s",
        "figure-a/other/only: latency(10): is not counted",
    ]
    with pytest.warns(UserWarning, match="1e-06 s"):
        along = fedatlas.interpolate(atlas, "objective", NETWORK, [1.0, 5.0])
    assert np.isnan(along.sel(run=["other", "silos"])).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fedatlas.compare(atlas, "objective", NETWORK, 0.35, experiments=["figure-b"])


def test_targets_of_accuracies_are_in_their_own_units(opened):
    place = "fmgda/figure-a/fmgda/only"
    values = [[0.5, 0.8, 0.93, 0.97], [0.5, 0.92, 0.92, 0.92]]
    atlas = opened({place: auroc_trace(values)})
    compared = fedatlas.compare(atlas, "test_auroc", "round", 0.93).dataset
    assert compared["cost_to_target"].values.ravel() == pytest.approx([20.0, math.inf])
    assert compared["reached"].values.tolist() == [[True, False]]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (("test_auroc", "round", 0.9), "no run measures 'test_auroc'; measured are objective"),
        (("min_max_objective", "round", 0.9), "'min_max_objective' has no best value"),
        (("suboptimalty", "round", 0.9), "'suboptimalty' has .*; similar: suboptimality"),
        (("gradient_norm", "hours", 0.9), "cost: 'hours': must be one of"),
        (("gradient_norm", "objective", 0.9), "cost: 'objective': must be one of"),
        (("gradient_norm", "round", 0.0), "must be above 0"),
        (("train_accuracy", "round", 1.0), "must lie below 1"),
        (("suboptimality", "round", 9e-11), "to which f. is known"),
    ],
)
def test_what_cannot_be_asked_is_said(opened, asked, said):
    with pytest.raises(FedatlasError, match=said):
        fedatlas.compare(opened(ONE), *asked)


def value_by_loop(x, y, at):
    """By straight lines between neighbouring records, NaN where there are none on both sides."""
    pairs = [(a, b) for a, b in zip(x, y, strict=True) if not math.isnan(a)]
    for a, b in reversed(pairs):
        if a == at:
            return b
    for (a, b), (c, d) in pairwise(pairs):
        if a < at < c:
            return b + (d - b) * (at - a) / (c - a)
    return math.nan


@settings(max_examples=12, deadline=None)
@given(st.data())
def test_interpolation_is_by_straight_lines_and_never_beyond(tmp_path_factory, data):
    seeds, records = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 6))
    number = st.floats(-1e3, 1e3)
    spent, values = np.empty((2, seeds, records))
    for seed in range(seeds):
        steps = data.draw(st.lists(st.integers(0, 50), min_size=records, max_size=records))
        spent[seed] = np.cumsum(steps)
        values[seed] = data.draw(st.lists(number, min_size=records, max_size=records))
        lost = data.draw(st.integers(1, 2 * records))
        spent[seed, lost:], values[seed, lost:] = np.nan, np.nan
    grid = data.draw(st.lists(st.floats(-10, 320), min_size=1, max_size=8))
    grid += [float(x) for x in spent.ravel() if not math.isnan(x)]
    trace = make_trace(np.ones((seeds, records)))
    trace["objective"] = ("seed", "record"), values
    trace["gradient_evaluations"] = ("seed", "record"), spent
    trace = trace.set_coords("gradient_evaluations")
    path = join(tmp_path_factory.mktemp("atlas"), {PLACES[0]: trace})
    with fedatlas.open_atlas(path) as atlas:
        got = fedatlas.interpolate(atlas, "objective", "gradient_evaluations", grid)
    assert got.dims == ("run", "seed", "cost") and got["cost"].values.tolist() == grid
    for seed in range(seeds):
        expected = [value_by_loop(spent[seed], values[seed], at) for at in grid]
        np.testing.assert_allclose(got.values[0, seed], expected, rtol=1e-9, atol=1e-9)


def test_a_hole_in_a_measurement_is_not_crossed(opened):
    trace = make_trace(np.ones((1, 4)), test_auroc=[[0.5, np.nan, 0.7, 0.9]])
    atlas = opened({PLACES[0]: trace})
    got = fedatlas.interpolate(atlas, "test_auroc", "round", [0, 5, 15, 20, 25])
    np.testing.assert_allclose(got.values[0, 0], [0.5, np.nan, np.nan, 0.7, 0.8])


@pytest.mark.parametrize("grid", [[], [1.0, math.nan], [math.inf], [[1.0]]])
def test_grids_are_lists_of_finite_costs(opened, grid):
    with pytest.raises(FedatlasError, match="list of finite costs"):
        fedatlas.interpolate(opened(ONE), "objective", "round", grid)


# ------------------------------------------------------------------ what earlier selections made


def test_one_run_is_told_as_one():
    assert Joined(["a"], ["demo/run"], [], []).told() == "added a; kept 1 run of earlier selections"


def test_the_atlas_keeps_runs_of_earlier_selections(tmp_path):
    path = join(tmp_path, EVERYWHERE)
    contents, parts = path.with_name("contents.json"), path.parent
    first, second = (parts / f"{paper}.nc" for paper in ("fedpage", "vfb2"))
    joined = join_papers([first], path, contents=contents)
    assert joined.told() == "added nothing new" and set(joined.kept) == set()
    names = set(json.loads(contents.read_text()))
    assert all(
        made["code"] == "fedatlas.errors" for made in json.loads(contents.read_text()).values()
    )
    kept = dict.fromkeys(names, False) | {min(names): True, "demo-gone/run": False}
    joined = join_papers([second], path, kept, contents)
    assert set(json.loads(contents.read_text())) > names
    assert joined.stale == [min(names)] and joined.lost == ["demo-gone/run"]
    assert (
        joined.told().startswith("added ")
        and "of earlier selections, of them stale: " in joined.told()
    )
    with fedatlas.open_atlas(path) as atlas:
        runs = list(atlas_runs(atlas))
        assert list(atlas) == ["vfb2", "fedpage"]  # this selection comes first
        marked = {f"{run.experiment}/{run.run}" for run in runs if run.title.endswith("(stale)")}
        assert marked == {min(names)}
    listed = contents.read_text()
    assert join_papers([second], path, kept, contents).added == []
    assert contents.read_text() == listed
    with fedatlas.open_atlas(path) as atlas:
        again = list(atlas_runs(atlas))
        assert [run[:6] for run in again] == [run[:6] for run in runs]
        for place, trace in EVERYWHERE.items():
            found = atlas.dataset(place).load()
            xr.testing.assert_identical(found, placed(trace, place))
    # One that cannot be read is not replaced by an atlas that has forgotten.
    flip = bytearray(path.read_bytes())
    flip[100] ^= 1
    path.write_bytes(flip)
    with pytest.raises(FedatlasError, match="its seal does not match"):
        join_papers([second], path, kept, contents)
    assert path.read_bytes() == flip
