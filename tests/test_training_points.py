"""Points that share a job: the traces they would have alone, each trained once."""

import re
import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiment_files import plan_of_all
from fedatlas.errors import FedatlasError, RunFailedError
from fedatlas.federations.horizontal.problem import HorizontalProblem
from fedatlas.plan import jobs
from fedatlas.schema.runs import Points
from fedatlas.store.trace import read_trace
from fedatlas.training import loop
from fedatlas.training.loop import train
from fedatlas.training.steps import train_run
from resuming import without_times
from small_federations import small, small_shards
from workflow_copy import EXPERIMENT, WorkflowCopy, targets


@pytest.fixture
def results(tmp_path):
    """A results folder with shards of clients and of parties."""
    shards = tmp_path / "shards" / "toy"
    shards.mkdir(parents=True)
    for algorithm in ("fedavg", "vfb2_saga"):
        shutil.copytree(small_shards(shards, algorithm), shards / "train", dirs_exist_ok=True)
    return tmp_path


def point(algorithm, point, **steps):
    spec = small(algorithm)
    return spec.model_copy(
        update={"point": point, "hyper_parameters": spec.hyper_parameters | steps}
    )


def points():
    return [
        point("fedavg", "large", local_step_size=0.05),
        point("fedavg", "small", local_step_size=0.01),
        point("scaffold", "only"),
        point("vfb2_saga", "only", step_size=0.05),
    ]


def run(specs, results):
    train_run(Points.of(specs), results)


def trace_of(spec, results):
    return results / "experiments" / spec.experiment / "traces" / spec.run / f"{spec.point}.nc"


def test_traces_are_those_of_points_that_train_alone(results, tmp_path):
    run(points(), results)
    records = sorted((results / "rehearsals").iterdir())
    assert [record.name.partition("-")[0] for record in records] == [
        "fedavg",
        "scaffold",
        "vfb2_saga",
    ]
    for spec in points():
        alone = train(spec, results / "shards/toy/train", tmp_path / "alone.nc")
        together = read_trace(trace_of(spec, results))
        assert without_times(together).identical(without_times(alone))


def test_only_what_changed_or_is_lost_trains_again(results):
    first = points()
    run(first, results)
    files = [trace_of(spec, results) for spec in first]
    before = [read_trace(file) for file in files]
    edited = [point("fedavg", "large", local_step_size=0.04), *first[1:]]
    trace_of(first[2], results).unlink()
    added = point("fedavg", "added", local_step_size=0.02)
    run([*edited, added], results)
    after = [read_trace(file) for file in files]
    # With their measured times.
    same = [old.identical(new) for old, new in zip(before, after, strict=True)]
    assert same == [False, True, True, True]
    assert trace_of(added, results).exists()


def test_damaged_traces_are_made_anew(results):
    specs = points()[:2]
    run(specs, results)
    whole = trace_of(specs[0], results).read_bytes()
    trace_of(specs[0], results).write_bytes(whole[: len(whole) // 2])
    run(specs, results)
    read_trace(trace_of(specs[0], results))


def test_a_failed_job_keeps_what_it_finished_for_the_next_attempt(results):
    good, without_optimum = points()[0], points()[3].model_copy(update={"optimum": True})
    with pytest.raises(FedatlasError, match="optima"):
        run([good, without_optimum], results)
    finished = read_trace(trace_of(good, results))
    trace_of(good, results).unlink()  # as Snakemake removes what a failed job has made
    run([good, points()[3]], results)
    assert read_trace(trace_of(good, results)).identical(finished)


@pytest.mark.parametrize(
    ("raised", "kind"),
    [(FedatlasError("too large"), FedatlasError), (KeyError("a"), RunFailedError)],
)
def test_an_error_names_the_run_and_the_seed_that_failed(results, monkeypatch, raised, kind):
    """Of several runs and seeds, not the first; before a seed trains there is none to name."""
    good, bad = (spec.model_copy(update={"seeds": (3, 5)}) for spec in points()[:2])
    whole, train_seed = HorizontalProblem.local_sgd, loop._Run._train_seed
    training = []  # the seeds so far; none in the rounds that do not count

    def failing(self, x, batch, step_size, *more):
        if step_size == 0.01 and training and training[-1] == 5:
            raise raised
        return whole(self, x, batch, step_size, *more)

    def noted(self, seed, *more):
        training.append(seed)
        train_seed(self, seed, *more)
        training.clear()

    monkeypatch.setattr(HorizontalProblem, "local_sgd", failing)
    monkeypatch.setattr(loop._Run, "_train_seed", noted)
    with pytest.raises(kind) as caught:
        run([good, bad], results)
    assert re.match(rf"{bad.name}, seed 5: .*{raised}", str(caught.value))
    monkeypatch.setattr(HorizontalProblem, "local_sgd", whole)
    gone = bad.model_copy(update={"split": "elsewhere"})
    with pytest.raises(FedatlasError) as caught:
        run([good, gone], results)
    assert str(caught.value).startswith(f"{gone.name}: ")


@given(st.lists(st.sampled_from(points()), min_size=1))
def test_the_specifications_come_back_from_what_a_job_is_told(specs):
    told = Points.of(specs).model_dump(mode="json")
    assert Points.model_validate(told).specs == specs


@pytest.fixture(scope="module")
def plan():
    return plan_of_all()


def test_every_point_trains_in_one_job_and_short_ones_in_few(plan):
    shared = jobs.shared_jobs(plan, list(plan.experiments))
    together = [spec.name for job in shared for spec in job.specs]
    assert len(together) == len(set(together))
    experiments = {job.experiment for job in shared}
    assert together == [
        spec.name for name in dict.fromkeys(job.experiment for job in shared)
        for spec in plan.runs_of(name)
    ]  # fmt: skip
    for name in experiments:
        seconds = plan.experiments[name].point_seconds
        sizes = [len(job.specs) for job in shared if job.experiment == name]
        assert max(sizes) - min(sizes) <= 1
        assert max(sizes) * seconds <= jobs.JOB_SECONDS + seconds
    for name in set(plan.experiments) - experiments:
        seconds = plan.experiments[name].point_seconds
        assert seconds is None or seconds * 2 > jobs.JOB_SECONDS or plan.experiments[name].runs_of


def test_a_shared_job_waits_for_what_any_of_its_points_needs(plan):
    for job in jobs.shared_jobs(plan, ["demo-crosspaper", "demo-vfb2"]):
        each = [jobs.inputs(spec) for spec in job.specs]
        for kind, files in jobs.inputs(*job.specs).items():
            assert len(files) == len(set(files))
            assert set(files) == {file for found in each for file in found[kind]}


def test_the_workflow_keeps_what_a_shared_job_need_not_train(tmp_path):
    workflow = WorkflowCopy.create(tmp_path / "copy")
    workflow.experiment.write_text(EXPERIMENT + "point_seconds: 5\n", encoding="utf-8")
    every = ["fedavg/only", "fedpage/global_step_size-0.03", "fedpage/global_step_size-0.1"]
    every.append("scaffold/only")
    traces = [str(workflow.trace(*run.split("/")).relative_to(workflow.folder)) for run in every]
    workflow.targets = targets(small="selection.json")
    outcome = workflow.run()
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    assert workflow.planned() == []
    before = [read_trace(workflow.folder / trace) for trace in traces]
    small = "config/experiments/demo/small.yaml"
    workflow.edit(small, "[0.1, 0.03]", "[0.1, 0.03, 0.01]")
    workflow.edit(small, "local_step_size: 0.02}\n  fedavg", "local_step_size: 0.01}\n  fedavg")
    assert told_of_trainings(workflow) == [
        "3 traces of finished seeds (no training): fedavg, fedpage/global_step_size-0.03, "
        "fedpage/global_step_size-0.1",
        "1 training (missing): fedpage/global_step_size-0.01",
        "1 training (settings changed): scaffold",
    ]
    assert workflow.run().returncode == 0
    after = [read_trace(workflow.folder / trace) for trace in traces]
    same = [old.identical(new) for old, new in zip(before, after, strict=True)]
    assert same == [True, True, True, False]
    assert workflow.trace("fedpage", "global_step_size-0.01").exists()
    assert workflow.planned() == []
    workflow.edit_code("algorithms/scaffold")
    workflow.edit(small, "[0.1, 0.03, 0.01]", "[0.03, 0.1]")
    assert told_of_trainings(workflow) == [
        "3 traces of finished seeds (no training): fedavg, fedpage/global_step_size-0.03, "
        "fedpage/global_step_size-0.1",
        "1 training (code changed): scaffold",
    ]


def told_of_trainings(workflow):
    """What `fedatlas run --dry-run` says of traces."""
    asked = ("--logger", "fedatlas", "--dry-run", "--cores", "2", *workflow.targets)
    lines = [line.strip() for line in workflow.ask(*asked)[1].splitlines()]
    return [line for line in lines if re.match(r"\d+ tra", line)]
