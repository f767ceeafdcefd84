"""One f* for partitions of all kinds: the last rows held out, the rows of shards, plans and traces.

What a partition holds is read from its Parquet files here; objectives are the plain loops of
tests/reference_vertical.py.
"""

import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import reference_vertical as reference
import small_federations
from catalogue_entry import FILES, entry
from experiment_files import config_folder
from fedatlas.arithmetic.samples import Samples
from fedatlas.errors import FedatlasError
from fedatlas.federations.context import FederationContext
from fedatlas.federations.tiered.hubs import SiloModels
from fedatlas.plan.build import build_plan
from fedatlas.schema.models import validated
from fedatlas.schema.objectives import LinearObjective
from fedatlas.schema.partitions import Partition, VerticalPartition
from fedatlas.schema.runs import Optimum, RunSpec, read_optimum, write_optimum
from fedatlas.shards.assignment import share_out, share_out_by_silo, train_and_test_rows
from fedatlas.shards.writing import write_shards
from fedatlas.store.trace import read_trace
from fedatlas.training.loop import train
from fedatlas.training.seeds import SeedPolicy
from fedatlas.training.solver import find_optimum
from prepared_files import write_prepared
from reference import PARTS
from resuming import train_until_killed

KINDS = ("horizontal", "vertical", "tiered")
quick = settings(max_examples=40, deadline=None)


def of_kind(kind: str, **rest: Any) -> Any:
    """A partition of this kind; what is not declared is as small as it gets."""
    own: dict[str, dict[str, Any]] = {
        "horizontal": {"clients": 5},
        "vertical": {"parties": 3, "active": 2},
        "tiered": {"cut": {"columns": 2}, "clients": 4},
    }
    return validated(Partition, {"kind": kind} | own[kind] | rest, "here")  # type: ignore[type-var]


# ------------------------------------------------------------------------- the last rows held out


@st.composite
def partitions(draw: st.DrawFn, tests: st.SearchStrategy[Any], kinds: Any = KINDS) -> Any:
    """Of these kinds, with at most four clients; whatever is random has a seed."""
    kind = draw(st.sampled_from(kinds), "kind")
    test = draw(tests, "test")
    rest: dict[str, Any] = {"test": test, "samples": draw(st.none() | st.integers(5, 60))}
    seed = draw(st.integers(0, 99), "seed")
    if kind == "horizontal":
        rest["clients"] = draw(st.integers(1, 4))
        rest["assignment"] = draw(st.sampled_from(["consecutive", "shuffled", "by_class"]))
        if rest["assignment"] != "consecutive" or isinstance(test, float):
            rest["seed"] = seed
    elif kind == "tiered":
        rest |= {"clients": draw(st.integers(1, 4)), "seed": seed}
    else:
        rest |= {"seed": draw(st.none() | st.just(seed)), "standardise": draw(st.booleans())}
    return of_kind(kind, **rest)


@quick
@given(partitions(st.integers(1, 30)), st.integers(60, 80))
def test_the_last_rows_are_held_out_whatever_the_kind_and_seed(spec, rows):
    kept = rows if spec.samples is None else spec.samples
    if spec.test >= kept:
        message = rf"test {spec.test} of {kept} rows leaves no row for training$"
        with pytest.raises(FedatlasError, match=message):
            train_and_test_rows(spec, rows)
        return
    expected = list(range(kept))
    held_out = [expected.pop() for _ in range(spec.test)][::-1]
    train_rows, test_rows = train_and_test_rows(spec, rows)
    assert train_rows.tolist() == expected
    assert test_rows.tolist() == held_out


@quick
@given(partitions(st.integers(1, 20), ("horizontal", "tiered")), st.integers(60, 80))
def test_clients_hold_the_other_rows_once(spec, rows):
    labels = np.where(np.arange(rows) % 3 == 0, 1.0, -1.0)
    kept = rows if spec.samples is None else spec.samples
    share = share_out if spec.kind == "horizontal" else share_out_by_silo
    if kept < spec.test + spec.clients:
        with pytest.raises(FedatlasError, match=r"leaves no row for training|clients \d+ exceeds"):
            share(spec, labels)
        return
    clients, test = share(spec, labels)[:2]
    for of_silo in [clients] if spec.kind == "horizontal" else clients:
        assert len(of_silo) == spec.clients and all(map(len, of_silo))
        assert sorted(np.concatenate(of_silo).tolist()) == list(range(kept - spec.test))
    assert test.tolist() == list(range(kept - spec.test, kept))


TESTS = st.none() | st.sampled_from([1, 5, 11, 0.5, 0.2, "1", "5", "last5", "test0.5", "test"])


@quick
@given(partitions(TESTS), partitions(TESTS))
def test_names_differ_exactly_when_partitions_do(one, other):
    assert re.fullmatch(r"[A-Za-z0-9._-]+", one.slug)
    assert (one.slug == other.slug) == (one == other)


@pytest.mark.parametrize("kind", KINDS)
def test_names_of_last_rows_stay_what_they_were(kind):
    spec = of_kind(kind, samples=560, test=110)
    assert spec.slug == {
        "horizontal": "horizontal-consecutive-5-first560-last110",
        "vertical": "vertical-shuffled-q3-m2-seedNone-rows-560-last110",
        "tiered": "tiered-columns2-k4-seedNone-first560-last110",
    }[kind]  # fmt: skip
    assert spec.test_split is None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("test", [0, -1, -110, True, False, 0.0, 1.0, 110.0, ""])
def test_what_is_no_number_of_rows_is_one_message(kind, test):
    message = re.escape(
        f"here: key 'test', value {test!r}: must be a share between 0 and 1, a whole"
    )
    with pytest.raises(FedatlasError, match=rf"^{message} number of last rows, or the name of a "):
        of_kind(kind, test=test)


def test_nothing_is_random_about_the_last_rows():
    assert of_kind("horizontal", test=5).seed is None
    with pytest.raises(FedatlasError, match="'consecutive' is not random; remove it"):
        of_kind("horizontal", test=5, seed=1)
    one, other = (of_kind("vertical", test=5).of_seed(seed) for seed in (1, 2))
    assert one.slug != other.slug  # parties have other columns
    assert one.rows_slug == other.rows_slug == "rows-all-last5"


# ------------------------------------------------------------------------------------ pooled rows

ROWS = [{"samples": samples, "test": test} for samples in (None, 60) for test in (None, 10, "test")]
HELD_BY = {
    "consecutive clients": ("horizontal", {}),
    "shuffled clients": ("horizontal", {"assignment": "shuffled", "seed": 3}),
    "clients by class": ("horizontal", {"assignment": "by_class", "seed": 1, "clients": 3}),
    "parties": ("vertical", {"seed": 5}),
    "parties of a trial": ("vertical", {"assignment": "consecutive"}),
    "silos": ("tiered", {"seed": 2}),
    "one silo": ("tiered", {"cut": {"columns": 1}, "clients": 1}),
}


@quick
@given(partitions(st.none() | st.integers(1, 30) | st.sampled_from(["test", "dev"])))
def test_any_kind_has_the_pooled_rows_of_its_samples_and_test(spec):
    pooled = spec.of_seed(9).pooled()
    assert (pooled.parties, pooled.active, pooled.seed) == (1, 1, 0)
    assert (pooled.samples, pooled.test) == (spec.samples, spec.test)
    assert pooled.standardise == getattr(spec, "standardise", False)
    assert pooled.pooled() == pooled
    for kind in () if pooled.standardise else KINDS:
        other = of_kind(kind, samples=spec.samples, test=spec.test)
        assert other.pooled().slug == pooled.slug


@pytest.fixture(scope="module", params=["dense", "sparse"])
def prepared(request, tmp_path_factory) -> Path:
    """62 rows to train on and 12 of a split `test`, of six columns and labels ±1."""
    folder = tmp_path_factory.mktemp("prepared")
    random = np.random.default_rng(4)
    for split, rows in (("train", 62), ("test", 12)):
        X = np.where(random.random((rows, 6)) < 0.6, random.normal(size=(rows, 6)), 0.0)
        X[random.random(rows) < 0.1] = 0.0
        label = np.where(X @ [1, -1, 2, 0, 0.5, -2] + random.normal(size=rows) > 0, 1.0, -1.0)
        stored = sparse.csr_array(X) if request.param == "sparse" else X
        samples = Samples(np.arange(rows), label, stored)
        write_prepared(folder / f"{split}.parquet", samples, split=split, task="binary")
        np.savez(folder / f"{split}.npz", X=X, y=label)
    return folder


def rows_of(prepared: Path, samples: int | None, test: Any) -> dict[str, np.ndarray]:
    """X and y to train on, X_test and y_test, by slices of what was prepared."""
    with np.load(prepared / "train.npz") as train_rows, np.load(prepared / "test.npz") as kept:
        X, y = train_rows["X"][:samples], train_rows["y"][:samples]
        if test == "test":
            return {"X": X, "y": y, "X_test": kept["X"], "y_test": kept["y"]}
    last = len(y) - (test or 0)
    return {"X": X[:last], "y": y[:last], "X_test": X[last:], "y_test": y[last:]}


def sharded(prepared: Path, spec: Any) -> list[Path]:
    """The partition's shard files, in a folder by its slug beside the prepared ones."""
    folder = prepared / spec.slug
    files = [folder / f"silo-{number}.parquet" for number in range(spec.silos)]
    if not folder.exists():
        folder.mkdir()
        test = prepared / f"{spec.test_split}.parquet" if spec.test_split else None
        write_shards(prepared / "train.parquet", spec, files, folder / "manifest.json", test)
    return files


def held(file: Path) -> tuple[list[int], list[int], list[int]]:
    """Sample ids to train on, ascending, and to test on, in their order; and the file's columns."""
    with pq.ParquetFile(file) as shard:
        metadata = json.loads(shard.schema_arrow.metadata[b"fedatlas"])
        groups = [
            shard.read_row_group(number, ["sample_id"])["sample_id"].to_pylist()
            for number in range(shard.num_row_groups)
        ]
    training = len(metadata["client_samples"]) if "client_samples" in metadata else 1
    columns = metadata.get("columns", list(range(6)))
    return (
        sorted(row for group in groups[:training] for row in group),
        [row for group in groups[training:] for row in group],
        columns,
    )


@pytest.mark.parametrize("rows", ROWS, ids=str)
def test_shards_of_all_kinds_hold_the_same_rows_and_name_one_optimum(prepared, rows):
    kept = rows["samples"] or 62
    last = kept - rows["test"] if rows["test"] == 10 else kept
    tested = {None: [], 10: list(range(last, kept)), "test": list(range(12))}[rows["test"]]
    files, slugs = {}, set()
    for holder, (kind, rest) in HELD_BY.items():
        spec = of_kind(kind, **rows, **rest).of_seed(8)
        slugs.add(spec.pooled().slug)
        files[holder] = sharded(prepared, spec)
    (slug,) = slugs
    files["pooled"] = sharded(prepared, of_kind("horizontal", **rows).pooled())
    assert files["pooled"][0].parent.name == slug
    for holder, shards in files.items():
        columns = []
        for file in shards:
            training, held_out, own = held(file)
            assert training == list(range(last)), holder
            assert held_out == tested, holder
            columns += own
        assert sorted(columns) == list(range(6))


def test_parties_may_hold_out_a_share_each_trial_its_own():
    spec = of_kind("vertical", test=0.2)
    slugs = [spec.of_seed(seed).pooled().rows_slug for seed in (3, 4)]
    assert slugs == ["seed3-rows-all-test0.2", "seed4-rows-all-test0.2"]


# --------------------------------------------------------------------------------------- one f

OBJECTIVES = {
    name: (*parts, 0.0 if name == "robust_regression" else 0.1) for name, parts in PARTS.items()
}
GRAPHS = {
    "states": {"kind": "complete", "weights": "received"},
    "trackers": {"kind": "complete", "weights": "sent"},
}
SCHEME = {"name": "constant", "alpha": 0.5, "beta": 0.5, "gamma": 0.5, "samples": 10}
SCHEME |= {"state_noise_scale": 0, "tracker_noise_scale": 0}
# Every method with all that it takes to descend along ∇f: f − f* is then known to vanish.
RUNS: dict[str, dict[str, Any]] = {
    "fedavg": {
        "partition": of_kind("horizontal", samples=60, test=10),
        "hyper_parameters": {"clients_per_round": 5, "local_steps": 1, "local_step_size": 1.0},
        "rounds": 200,
    },
    "dp_gradient_tracking": {
        "partition": of_kind("horizontal", assignment="shuffled", samples=60, test=10),
        "hyper_parameters": {"clipping": "none", "horizon": 400, "scheme": SCHEME},
        "graphs": GRAPHS,
        "rounds": 400,
    },
    "tdcd": {
        "partition": of_kind("tiered", samples=60, test=10, clients=2),
        "hyper_parameters": {"local_steps": 1, "batch_size": 50, "step_size": 1.0},
        "rounds": 200,
    },
    "vfb2_svrg": {
        "partition": of_kind("vertical", samples=60, test=10),
        "hyper_parameters": {"step_size": 0.1, "synchronous": True},
        "rounds": 400,
    },
}
every_kind = pytest.mark.parametrize("algorithm", RUNS)
one_layout = pytest.mark.parametrize("prepared", ["sparse"], indirect=True)


def specification(algorithm: str, objective: str = "logistic_l2", **changes: Any) -> RunSpec:
    declared = {"name": objective, "weight": OBJECTIVES[objective][2] or None}
    values = (
        {"objective": declared, "optimum": True, "record_every": 40} | RUNS[algorithm] | changes
    )
    return small_federations.specification(algorithm, **values)


def shards_for(prepared: Path, spec: RunSpec) -> Path:
    for seed in spec.seeds:
        sharded(prepared, spec.partition.of_seed(seed))
    return prepared


def as_point(spec: RunSpec, prepared: Path, x: np.ndarray) -> Any:
    """x by columns of the data set, as the run's oracle is asked about it."""
    files = sharded(prepared, spec.partition.of_seed(spec.seeds[0]))
    columns = [held(file)[2] for file in files]
    if spec.partition.kind == "vertical":
        return x[np.concatenate(columns)]
    if spec.partition.kind == "tiered":
        blocks = tuple(x[own] for own in columns)
        return SiloModels(blocks, tuple(np.zeros(0) for _ in blocks))
    return np.tile(x, (spec.partition.clients, 1)) if spec.graphs else x


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("test", [10, "test"])
def test_all_kinds_measure_one_function(prepared, objective, test):
    """Objective, gradient and accuracies at any point, and those of plain loops over the rows."""
    data = rows_of(prepared, 60, test)
    oracles = []
    for algorithm, run in RUNS.items():
        partition = run["partition"].model_copy(update={"test": test})
        spec = specification(algorithm, objective, partition=partition)
        setting = FederationContext(spec, shards_for(prepared, spec), "cpu")
        oracles.append((spec, setting.seed_run(spec.seeds[0]).problem))
    for seed in range(3):
        x = np.random.default_rng(seed).normal(size=6) * seed  # the first at the start, 0
        gradient = reference.gradient(data["X"], data["y"], x, *OBJECTIVES[objective])
        expected = {
            "objective": reference.objective(data["X"], data["y"], x, *OBJECTIVES[objective]),
            "gradient_norm": float(np.linalg.norm(gradient)),
            "train_accuracy": np.mean((data["X"] @ x > 0) == (data["y"] > 0)),
            "test_accuracy": np.mean((data["X_test"] @ x > 0) == (data["y_test"] > 0)),
        }
        for spec, problem in oracles:
            measured = problem.measure(as_point(spec, prepared, x))
            found = {name: measured[name] for name in expected}
            assert found == pytest.approx(expected, rel=1e-12, abs=1e-14), spec.name


# ---------------------------------------------------------------------------------------- one f*


@pytest.fixture(scope="module")
def optima(prepared) -> Path:
    """Optima by the workflow's command, of the rows that all runs share."""
    folder = prepared / "optima"
    pooled = RUNS["fedavg"]["partition"].pooled()
    for objective in ("logistic_l2", "ridge_regression"):
        declared = LinearObjective(name=objective, weight=0.1)
        file = folder / pooled.rows_slug / f"{declared.slug}.json"
        find_optimum(sharded(prepared, pooled), declared, file)
    return folder


@pytest.mark.parametrize("objective", ["logistic_l2", "ridge_regression"])
def test_all_runs_have_one_file_of_f_star(optima, objective):
    (file,) = {
        specification(algorithm, objective).optimum_file(optima, seed)
        for algorithm in RUNS
        for seed in (3, 8)
    }
    assert file.parts[-2:] == ("rows-60-last10", f"{objective}-0.1.json")
    assert read_optimum(file).gap < 1e-10


@every_kind
def test_traces_of_all_kinds_fall_to_one_optimum(prepared, optima, tmp_path, algorithm):
    spec = specification(algorithm)
    train(spec, shards_for(prepared, spec), tmp_path / "trace.nc", optima=optima)
    trace = read_trace(tmp_path / "trace.nc")
    assert (trace["status"] == "ok").all()
    best = read_optimum(spec.optimum_file(optima, 3)).objective
    assert json.loads(trace.attrs["optima"]) == {"3": best, "8": best}
    np.testing.assert_array_equal(trace["suboptimality"], trace["objective"] - best)
    assert (trace["suboptimality"] > -1e-10).all()
    assert (trace["suboptimality"][:, -1] < 1e-8).all()
    # All start at 0: ln 2, and a gradient that no partition of the same rows changes.
    data = rows_of(prepared, 60, 10)
    gradient = reference.gradient(data["X"], data["y"], np.zeros(6), *OBJECTIVES["logistic_l2"])
    start = {"objective": np.log(2), "gradient_norm": np.linalg.norm(gradient)}
    start["suboptimality"] = np.log(2) - best
    for name, expected in start.items():
        np.testing.assert_allclose(trace[name][:, 0], expected, rtol=1e-12)


@one_layout
@every_kind
def test_runs_that_are_not_asked_measure_no_suboptimality(prepared, optima, tmp_path, algorithm):
    spec = specification(algorithm, optimum=False, rounds=2, seeds=(3,))
    assert spec.optimum_file(optima, 3) is None
    trace = train(spec, shards_for(prepared, spec), tmp_path / "trace.nc", optima=optima)
    assert "suboptimality" not in trace
    assert trace.attrs["optima"] == "{}"


@one_layout
@every_kind
def test_a_missing_optimum_is_named(prepared, tmp_path, algorithm):
    spec = specification(algorithm, rounds=2)
    start = partial(train, spec, shards_for(prepared, spec), tmp_path / "trace.nc")
    message = rf"^{re.escape(spec.name)}: measures sub-optimality: give --optima, too$"
    with pytest.raises(FedatlasError, match=message):
        start()
    file = "rows-60-last10/logistic_l2-0.1.json"
    with pytest.raises(FedatlasError, match=rf"{file}: cannot be read as JSON: .*Make it again"):
        start(optima=tmp_path / "optima")
    (tmp_path / "optima" / file).parent.mkdir(parents=True)
    (tmp_path / "optima" / file).write_text('{"objective": 0.1}', encoding="utf-8")
    with pytest.raises(FedatlasError, match=rf"{file}: missing key 'gap'"):
        start(optima=tmp_path / "optima")
    assert not (tmp_path / "trace.nc").exists()


def test_an_optimum_of_zero_is_an_optimum(prepared, tmp_path):
    spec = specification("fedavg", rounds=2, seeds=(3,))
    write_optimum(
        Optimum(objective=0.0, gradient_norm=0.0, gap=0.0, solver="by hand"),
        spec.optimum_file(tmp_path, 3),
    )
    trace = train(spec, shards_for(prepared, spec), tmp_path / "trace.nc", optima=tmp_path)
    np.testing.assert_array_equal(trace["suboptimality"], trace["objective"])


@one_layout
@every_kind
@pytest.mark.parametrize("moved", [0.0, 0.125])
def test_a_checkpoint_belongs_to_its_optimum(prepared, optima, tmp_path, caplog, moved, algorithm):
    """With the same f* a run goes on; with another one it starts again."""
    spec = specification(algorithm, rounds=8, record_every=3)
    shards = shards_for(prepared, spec)
    policy = SeedPolicy(tmp_path / "seeds", every_seconds=-1.0)
    train_until_killed(6, spec, shards, tmp_path / "a.nc", policy, optima=optima)

    found = read_optimum(spec.optimum_file(optima, 3))
    other = found.model_copy(update={"objective": found.objective - moved})
    write_optimum(other, spec.optimum_file(tmp_path, 3))
    with caplog.at_level("INFO"):
        trace = train(spec, shards, tmp_path / "a.nc", optima=tmp_path, seeds=policy)
    assert ("resuming seed 3 after round 5" in caplog.text) is not bool(moved)
    np.testing.assert_array_equal(trace["suboptimality"], trace["objective"] - other.objective)
    whole = train(spec, shards, tmp_path / "b.nc", optima=tmp_path)
    assert trace.drop_vars("wall_time").identical(whole.drop_vars("wall_time"))


# ------------------------------------------------------------------------------------------ plans


def experiment() -> dict[str, Any]:
    """Four methods of four settings; the experiment's own partition is no run's."""
    parts = {name: run["partition"].model_dump(exclude_unset=True) for name, run in RUNS.items()}
    runs = {
        name: {
            "algorithm": name,
            "partition": parts[name] | {"kind": run["partition"].kind},
            "hyper_parameters": run["hyper_parameters"],
        }
        for name, run in RUNS.items()
    }
    return {
        "paper": "ours",
        "title": "Four settings",
        "source": "a test",
        "dataset": "tiny",
        "partition": {"kind": "horizontal", "clients": 10, "samples": 60, "test": 10},
        "graphs": GRAPHS,
        "objective": {"name": "logistic_l2", "weight": 0.1},
        "rounds": 4,
        "record_every": 2,
        "seeds": [3, 8],
        "runs": runs,
        "selection": {"measurement": "objective"},
        "figure": {"measurement": "suboptimality", "costs": ["exchanges"]},
    }


Changes = dict[str, Any]


def changed(content: Changes, changes: Changes) -> Changes:
    """With other values of keys within keys, such as runs.tdcd.partition.test; None removes one."""
    content = json.loads(json.dumps(content))
    for path, value in changes.items():
        *within, last = path.split(".")
        inner = content
        for key in within:
            inner = inner[key]
        inner[last] = value
        if value is None:
            del inner[last]
    return content


def config(folder: Path, rows: int | None = 62, /, **experiments: Changes) -> Path:
    """A configuration with a tiny data set and these experiments of the group demo."""
    files = {"rows": rows, "files": FILES}
    tiny = entry(features=6, splits={"train": files, "test": files})
    return config_folder(folder / "config", {"tiny": tiny}, **experiments)


def test_a_plan_has_one_optimum_for_all_kinds(tmp_path):
    plan = build_plan(config(tmp_path, small=experiment()))
    assert {
        spec.optimum_file(Path("o"), seed) for spec in plan.runs.values() for seed in spec.seeds
    } == {Path("o/rows-60-last10/logistic_l2-0.1.json")}
    assert list(plan.pooled) == ["rows-60-last10"]
    pooled = plan.pooled["rows-60-last10"]
    assert plan.partitions[pooled.slug] == pooled
    assert isinstance(pooled, VerticalPartition) and pooled.parties == 1
    # Each of the two trials has a partition, but for blocks of consecutive rows.
    kinds = [part.kind for part in plan.partitions.values()]
    assert (kinds.count("horizontal"), kinds.count("tiered"), kinds.count("vertical")) == (3, 2, 3)
    assert set(plan.objectives) == {"logistic_l2-0.1"}


LOOKED_AT = {
    "a figure's row": {"figure.also": ["suboptimality"]},
    "the selection": {"selection.measurement": "suboptimality"},
    "a claim": {
        "claims": [
            {
                "id": "better",
                "source": "a test",
                "statement": "One is better",
                "test": {
                    "kind": "better_final",
                    "first": "tdcd",
                    "second": "fedavg",
                    "measurement": "suboptimality",
                },
            }
        ]
    },
    "its rate": {
        "claims": [
            {
                "id": "rate",
                "source": "a test",
                "statement": "It is linear",
                "test": {"kind": "convergence_order", "run": "vfb2_svrg", "order": "linear"},
            }
        ]
    },
}


@pytest.mark.parametrize("what", [None, *LOOKED_AT])
def test_optima_are_found_only_if_something_looks_at_them(tmp_path, what):
    content = changed(experiment(), {"figure.measurement": "objective"})
    plan = build_plan(config(tmp_path, small=changed(content, LOOKED_AT.get(what, {}))))
    assert {spec.optimum for spec in plan.runs.values()} == {what is not None}
    assert len(plan.pooled) == (what is not None)


NETWORK = {"name": "binary_cross_entropy", "model": "linear"}


@pytest.mark.parametrize(
    ("run", "changes", "message"),
    [
        ("tdcd", {"partition.test": 0.2}, "suboptimality of a tiered partition needs the rows"),
        ("tdcd", {"partition.binary": {"positive": [1]}}, "where all rows count equally"),
        ("fedavg", {"partition.samples": 63}, "samples 63 exceeds the 62 rows of the data set"),
        ("fedavg", {"partition.test": 60}, "test 60 of 60 rows leaves no row for training"),
        ("tdcd", {"partition.test": 60}, "test 60 of 60 rows leaves no row for training"),
    ],
)
def test_runs_without_the_shared_optimum_are_refused_by_name(tmp_path, run, changes, message):
    within = {f"runs.{run}.{path}": value for path, value in changes.items()}
    folder = config(tmp_path, small=changed(experiment(), within))
    with pytest.raises(FedatlasError, match=rf"demo/small\.yaml: runs\.{run}: .*{message}"):
        build_plan(folder)


@pytest.mark.parametrize(
    ("run", "changes"),
    [
        ("fedavg", {"partition.test": 0.2}),
        ("fedavg", {"partition.binary": {"positive": [1]}}),
        (
            "dp_gradient_tracking",
            {"partition.assignment": "dirichlet", "partition.concentration": 1.0},
        ),
        ("fedavg", {"partition.clients": 7}),
        ("dp_gradient_tracking", {"partition.clients": 4}),
        ("fedavg", {"partition.samples": None}),
        (
            "fedavg",
            {
                "objective": {
                    "name": "logistic_l2",
                    "weight": 0.1,
                    "client_weights": [1, 2, 3, 4, 5],
                }
            },
        ),
    ],
)
def test_clients_whose_mean_is_not_that_over_rows_have_optima_of_their_own(tmp_path, run, changes):
    """Found on the shards of every trial; others share theirs."""
    within = {f"runs.{run}.{path}": value for path, value in changes.items()}
    plan = build_plan(config(tmp_path, small=changed(experiment(), within)))
    for spec in plan.runs.values():
        own = "of_clients" if spec.run == run else True
        assert spec.optimum == own, spec.run
        for seed in spec.seeds:
            name, rows = spec.optimum_rows(seed)
            assert plan.pooled[name] == rows == plan.partitions[rows.slug]
            assert (rows == spec.partition.of_seed(seed)) == (own == "of_clients")


def test_clients_that_count_by_their_samples_share_the_optimum(tmp_path):
    by_size = {"name": "logistic_l2", "weight": 0.1, "client_weights": "size"}
    within = {"runs.fedavg.partition.clients": 7, "runs.fedavg.objective": by_size}
    plan = build_plan(config(tmp_path, small=changed(experiment(), within)))
    assert {spec.optimum for spec in plan.runs.values()} == {True}


def test_rows_that_the_catalogue_does_not_count_may_be_anyhow_many(tmp_path):
    build_plan(config(tmp_path / "a", None, small=experiment()))
    without = changed(experiment(), {"runs.fedavg.partition.samples": None})
    plan = build_plan(config(tmp_path / "b", None, small=without))
    assert {spec.run: spec.optimum for spec in plan.runs.values()}["fedavg"] == "of_clients"


def test_networks_have_no_f_star(tmp_path):
    """Neither where a figure looks at it nor beside a linear run that a claim looks at."""
    other = changed(experiment(), {"runs.tdcd.objective": NETWORK})
    with pytest.raises(FedatlasError, match="figure looks at suboptimality, which run 'tdcd' does"):
        build_plan(config(tmp_path / "a", small=other))
    claims = LOOKED_AT["its rate"] | {"figure.measurement": "objective"}
    message = r"small\.yaml: runs\.tdcd: suboptimality is measured for linear models only"
    with pytest.raises(FedatlasError, match=message):
        build_plan(config(tmp_path / "b", small=changed(other, claims)))


@pytest.mark.parametrize("run", ["fedavg", "dp_gradient_tracking", "tdcd"])
def test_a_rate_per_update_epoch_is_that_of_parties(tmp_path, run):
    claims = changed(LOOKED_AT["its rate"], {})
    claims["claims"][0]["test"]["run"] = run
    message = rf"claim 'rate' looks at update_epoch, which run '{run}' does not count: it has no p"
    with pytest.raises(FedatlasError, match=message):
        build_plan(config(tmp_path, small=experiment() | claims))


def test_runs_that_are_shown_elsewhere_must_measure_what_is_looked_at(tmp_path):
    shown = {
        "paper": "ours",
        "title": "Shown again",
        "source": "a test",
        "runs_of": "demo-small",
        "selection": {"measurement": "objective"},
        "figure": {"measurement": "suboptimality", "costs": ["exchanges"]},
    }
    build_plan(config(tmp_path / "a", small=experiment(), shown=shown))
    without = changed(experiment(), {"figure.measurement": "objective"})
    message = r"shown\.yaml: uses suboptimality, which demo-small does not measure"
    with pytest.raises(FedatlasError, match=message):
        build_plan(config(tmp_path / "b", small=without, shown=shown))


# ------------------------------------------------------------------------------ agents of a plan


def test_agents_are_those_of_runs_on_the_experiments_graphs(tmp_path):
    content = experiment()
    agents = content["runs"].pop("dp_gradient_tracking")
    ring = {"states": {"kind": "ring", "weights": "metropolis"}}
    smaller = {
        "algorithm": "gaussian_gradient_descent",
        "graphs": ring,
        "partition": agents["partition"] | {"clients": 10, "assignment": "consecutive"},
        "hyper_parameters": {
            "clipping": "none", "coupling": 0.1, "step_size": 0.1, "samples": 2, "noise": 0.1,
        },
    }  # fmt: skip
    content["runs"] |= {"on-a-ring": smaller, "tracking": agents}
    tiered = content["runs"]["tdcd"]["partition"]
    plan = build_plan(config(tmp_path, small=content, tiered=content | {"partition": tiered}))
    # Not the experiment's 10 clients, nor the 10 of the run with a graph of its own.
    assert plan.agents_of("demo-small") == plan.agents_of("demo-tiered") == 5


def test_agents_with_graphs_of_their_own_are_counted_where_all_have(tmp_path):
    content = changed(experiment(), {"graphs.trackers": None})
    content["runs"]["dp_gradient_tracking"]["graphs"] = GRAPHS
    plan = build_plan(config(tmp_path, small=content))
    assert plan.agents_of("demo-small") == 5
