"""Experiments' runs in one file: bit for bit, padded, lazily, and compared by plain loops."""

import json
import math
import subprocess
import sys
import warnings
from itertools import pairwise
from pathlib import Path

import h5py
import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import fedatlas
from atlas_factory import write_runs
from fedatlas.errors import FedatlasError
from fedatlas.store.experiment import Experiment
from fedatlas.store.netcdf import seal, write_netcdf
from trace_factory import auroc_trace, make_trace, tiered_trace, vertical_trace

NETWORK = "network(latency=0.05, bandwidth=1e6, gradient=1e-5)"


def placed(trace, place):
    """The trace as that of paper/experiment/run/point."""
    keys = ("paper", "experiment", "run", "point")
    return trace.assign_attrs(dict(zip(keys, place.split("/"), strict=True)))


def keep(folder, traces):
    """A file of each experiment in the folder, of traces by place; a run's first is selected."""
    folder.mkdir(exist_ok=True)
    tree = {}
    for place, trace in traces.items():
        paper, experiment, run, point = place.split("/")
        runs = tree.setdefault((paper, experiment), {})
        runs.setdefault(run, (f"Run {run}", {}))[1][point] = trace
    for (paper, experiment), runs in tree.items():
        about = {"title": f"«{experiment}» – f* ≤ ε", "notes": "first line\nsecond"}
        write_runs(folder / f"{experiment}.nc", paper, experiment, runs, **about)
    return folder


@pytest.fixture
def opened(tmp_path):
    """Writes traces by place and opens them."""
    return lambda traces: fedatlas.open_atlas(keep(tmp_path / "atlas", traces))


any_float = st.floats(width=64, allow_nan=True, allow_infinity=True, allow_subnormal=True)
SEEDS = range(2**40, 2**40 + 5)


@st.composite
def traces_of_any_shape(draw):
    seeds, records = draw(st.integers(1, 4)), draw(st.integers(1, 5))
    numbers = draw(st.lists(any_float, min_size=seeds * records, max_size=seeds * records))
    kinds = (make_trace, auroc_trace, vertical_trace)
    trace = draw(st.sampled_from(kinds))(np.full((seeds, records), 0.5))
    trace["objective"] = trace["objective"].copy(data=np.reshape(numbers, (seeds, records)))
    # Of one to four bytes each; texts cannot hold a zero byte in netCDF.
    text = st.text("a 9\n\t\"'\\\x01\x7fé≤\u2028\ufeff\U0001f600\U0010ffff", max_size=20)
    status = draw(st.lists(text.filter(bool), min_size=seeds, max_size=seeds))
    trace["status"] = trace["status"].copy(data=np.array(status))
    own = draw(st.lists(st.sampled_from(SEEDS), min_size=seeds, max_size=seeds, unique=True))
    thinned = draw(st.booleans())
    return trace.assign_attrs(
        warnings=draw(text),
        effective_step_size=draw(any_float.filter(math.isfinite)),
        some_count=draw(st.integers(-(2**62), 2**62)),
    ).assign_coords(
        seed=trace["seed"].copy(data=sorted(own)),
        record=trace["record"].copy(data=np.arange(records) * (1 + 6 * thinned)),
    )


@settings(max_examples=25, deadline=None)
@given(st.lists(traces_of_any_shape(), min_size=1, max_size=4))
def test_traces_come_through_bit_for_bit(tmp_path_factory, traces):
    places = [f"{'ab'[i % 2]}/figure-{i % 2}/run/point-{i}" for i in range(len(traces))]
    own = {place: placed(trace, place) for place, trace in zip(places, traces, strict=True)}
    atlas = fedatlas.open_atlas(keep(tmp_path_factory.mktemp("atlas"), own))
    for place, trace in own.items():
        found = atlas.dataset(place).load()
        xr.testing.assert_identical(found, trace)
        for name, values in trace.variables.items():
            same = found[name].dtype.kind == "O" or found[name].dtype == values.dtype
            assert same or values.dtype.kind == "U", name
            if values.dtype.kind == "f":
                bits = (each.to_numpy().view(np.int64) for each in (found[name], values))
                np.testing.assert_array_equal(*bits)


PLACES = (
    "vfb2/demo-vfb2/nonf/only",
    "fedpage/demo-fedpage/scaffold/step_size-0.1",
    "fedpage/demo-fedpage/scaffold/step_size-0.01",
    "fedpage/demo-fedpage/fedavg/only",
    "fedpage/another-one/fedavg/only",
)
EVERYWHERE = {place: make_trace(np.ones((2, 3))) for place in PLACES}
ONE = {PLACES[0]: make_trace(np.ones((2, 3)))}


def test_places_are_in_the_order_of_files_and_say_what_they_are(opened):
    atlas = opened(EVERYWHERE)
    # Experiments by name, the rest as given.
    points = [node.path.removeprefix("/") for node in atlas.to_datatree().leaves]
    assert points == [PLACES[4], *PLACES[1:4], PLACES[0]] == atlas.places()
    assert atlas["fedpage/demo-fedpage"].attrs == {
        "title": "«demo-fedpage» – f* ≤ ε",
        "source": "Figure 1",
        "notes": "first line\nsecond",
        "dataset": "made up",
        "licence": "",
    }
    run = "fedpage/demo-fedpage/scaffold"
    assert atlas[run].attrs == {"title": "Run scaffold", "selected": "step_size-0.1"}
    assert atlas.places("demo-f*", all_points=False) == [PLACES[1], PLACES[3]]
    with pytest.raises(KeyError):
        _ = atlas["vfb2/nothing"]


def test_a_file_is_padded_and_names_what_varies(tmp_path):
    lost = np.array([[1.0, 0.5, 0.2], [1.0, np.nan, np.nan]])
    runs = {
        "page": (
            "FedPAGE",
            {
                "a": make_trace(lost, hyper_parameters={"step_size": 0.1, "scheme": {"p": 0.5}}),
                "b": make_trace(
                    np.ones((1, 2)), hyper_parameters={"step_size": 1.0, "scheme": {"p": 0.25}}
                ),
            },
        ),
        "auc": ("CODA", {"only": auroc_trace(np.full((1, 2), 0.5), hyper_parameters={"k": "v"})}),
    }
    file = write_runs(tmp_path / "made.nc", "ours", "made", runs)
    with xr.open_dataset(file) as found:
        assert dict(found.sizes) == {"point": 3, "seed": 2, "record": 3}
        assert found["run"].values.tolist() == ["page", "page", "auc"]
        assert found["selected"].values.tolist() == [True, False, True]
        assert found["records"].values.tolist() == [3, 2, 2]
        np.testing.assert_equal(found["parameter_step_size"].values, [0.1, 1.0, np.nan])
        np.testing.assert_equal(found["parameter_scheme.p"].values, [0.5, 0.25, np.nan])
        assert found["parameter_k"].values.tolist() == ["", "", "v"]
        assert found["status"].values.tolist() == [["ok", "diverged"], ["ok", ""], ["ok", ""]]
        norm, bytes_up = found["gradient_norm"].values, found["bytes_up"]
        np.testing.assert_equal(norm[0], lost)
        np.testing.assert_equal(norm[1], [[1, 1, np.nan], [np.nan] * 3])
        assert np.isnan(norm[2]).all() and not np.isnan(bytes_up.values[2, 0, :2]).any()
        assert "bytes_up" in found.coords and bytes_up.attrs["units"] == "byte"
    assert Experiment(file).traces().keys() == {"page", "auc"}


def test_an_experiment_without_runs_has_a_file_without_points(tmp_path):
    file = write_runs(tmp_path / "none.nc", "ours", "none", {})
    experiment = Experiment(file)
    assert experiment.traces() == {} and experiment.heading.experiment == "none"
    atlas = fedatlas.open_atlas(tmp_path)
    assert atlas.places() == [] and len(atlas.runs()) == 0


def test_the_same_traces_give_the_same_bytes(tmp_path):
    first = (keep(tmp_path / "a", EVERYWHERE) / "demo-fedpage.nc").read_bytes()
    assert (keep(tmp_path / "b", EVERYWHERE) / "demo-fedpage.nc").read_bytes() == first


def test_no_file_stays_open(opened):
    trace = opened(ONE).dataset(PLACES[0])
    descriptors = list(Path("/proc/self/fd").iterdir())
    assert not [one for one in descriptors if one.exists() and one.resolve().suffix == ".nc"]
    assert trace["train_accuracy"].to_numpy().tolist() == [[0.9, 0.9, 0.9]] * 2


def test_an_experiment_that_shows_runs_of_another_is_left_out_beside_it(tmp_path):
    runs = {"page": ("FedPAGE", {"only": make_trace(np.ones((1, 2)))})}
    write_runs(tmp_path / "view.nc", "ours", "view", runs, runs_of="owner")
    alone = fedatlas.open_atlas(tmp_path)
    assert alone.places() == ["ours/view/page/only"] and not alone.shows
    write_runs(tmp_path / "owner.nc", "ours", "owner", runs)
    both = fedatlas.open_atlas(tmp_path)
    assert both.places() == ["ours/owner/page/only"]
    assert both.shows == {"view": ["owner/page"]}


def test_parts_of_an_experiment_are_one_but_no_trace_is_held_twice(tmp_path):
    trace = make_trace(np.ones((1, 2)))
    for part, run in enumerate(("page", "avg"), start=1):
        runs = {run: (run, {"only": trace})}
        write_runs(tmp_path / f"made-part{part}.nc", "ours", "made", runs)
    atlas = fedatlas.open_atlas(tmp_path)
    assert atlas.names("ours/made") == ["page", "avg"]
    write_runs(tmp_path / "again.nc", "ours", "made", {"avg": ("avg", {"only": trace})})
    with pytest.raises(FedatlasError, match=r"part2\.nc: holds ours/made/avg/only, which .*again"):
        fedatlas.open_atlas(tmp_path)


def test_importing_the_package_imports_nothing_heavy():
    program = (
        "import sys, fedatlas; heavy = {'numpy', 'xarray', 'h5py', 'netCDF4', 'torch', 'scipy'}; "
        "assert not heavy & set(sys.modules); fedatlas.open_atlas, fedatlas.compare; "
        "assert 'xarray' in sys.modules; fedatlas.train('fedavg', 'breast-cancer', rounds=1, "
        "partition={'kind': 'horizontal', 'clients': 4}, clients_per_round=2, local_steps=1, "
        "objective={'name': 'logistic_l2', 'weight': 0.1}, local_step_size=0.1, optimum=True); "
        "assert not {'torch', 'sklearn'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = fedatlas.nothing


def with_another_bit(file):
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 4
    file.write_bytes(content)


def claiming(file):
    with h5py.File(file, "r+") as opened:
        opened.create_dataset("more", (10**6, 10**6), "f8", chunks=(10, 10))  # nothing written


def sealed_anew(change):
    def changed(file):
        change(file)
        seal(file)

    return changed


def with_attribute(name, value):
    @sealed_anew
    def change(file):
        with h5py.File(file, "r+") as opened:
            opened.attrs[name] = value

    return change


def without(name):
    @sealed_anew
    def change(file):
        with h5py.File(file, "r+") as opened:
            del opened[name]

    return change


@pytest.mark.parametrize(
    "damage",
    [
        lambda file: file.write_bytes(file.read_bytes()[:-2000]),
        xr.Dataset({"a": 1}).to_netcdf,
        lambda file: write_netcdf(xr.Dataset({"a": 1}), file),
        with_another_bit,
        lambda file: file.write_text("not netCDF at all"),
        sealed_anew(lambda file: file.write_text("not netCDF at all")),
        sealed_anew(claiming),
        with_attribute("format", "fedatlas experiment 0"),
        with_attribute("experiment", "../elsewhere"),
        without("attributes"),
        without("status"),
    ],
)
def test_a_wrong_file_is_refused_by_name(tmp_path, damage):
    folder = keep(tmp_path, EVERYWHERE)
    file = folder / "demo-fedpage.nc"
    damage(file)
    for path in (file, folder):
        with pytest.raises(FedatlasError, match=str(file)):
            fedatlas.open_atlas(path)


def test_what_is_missing_is_said(tmp_path):
    for missing in (tmp_path / "missing.nc", tmp_path):
        with pytest.raises(FedatlasError, match=str(missing)):
            fedatlas.open_atlas(missing)


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

    assert names() == [PLACES[4], PLACES[1], PLACES[3], PLACES[0]]
    assert names(all_points=True) == [PLACES[4], *PLACES[1:4], PLACES[0]]
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
    assert compared["clock"].sel(cost=NETWORK).values.tolist() == ["own", "own", "counted"]
    assert set(compared["clock"].sel(cost="latency(10)").values) == {"counted"}
    assert compared.attrs["left_out"] == [
        "figure-a/same/only: latency(10): is not counted",
        f"figure-a/other/only: {NETWORK}: its own clock has the latency 1e-06 s, not 0.05 s",
        "figure-a/other/only: latency(10): is not counted",
        f"figure-b/silos/only: {NETWORK}: is not counted",
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
        (
            ("suboptimalty", "round", 0.9),
            "'suboptimalty' is no measurement; similar: suboptimality",
        ),
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


@pytest.mark.parametrize("named", [{"experiments": 5}, {"runs": [None]}])
def test_names_are_texts(opened, named):
    with pytest.raises(FedatlasError, match="is no name or list of names"):
        fedatlas.compare(opened(ONE), "gradient_norm", "round", 0.5, **named)


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
    path = keep(tmp_path_factory.mktemp("atlas"), {PLACES[0]: trace})
    atlas = fedatlas.open_atlas(path)
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
