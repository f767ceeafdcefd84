"""Methods in stages: a first stage that leaves no rounds for a second is refused beforehand."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedatlas.algorithms import algorithm_class, build_algorithm
from fedatlas.errors import FedatlasError
from fedatlas.plan.build import build_plan
from fedatlas.schema.runs import RunSpec

STAGED = ("coda", "coda_plus", "codasca")
CONFIG = Path(__file__).parent.parent / "config"
STEPS = {"local_steps": 2, "primal_step_size": 0.1, "dual_step_size": 0.1}


def a_run(algorithm: str, rounds: int, first_stage_rounds: int | None) -> RunSpec:
    stages = {} if first_stage_rounds is None else {"first_stage_rounds": first_stage_rounds}
    content = {
        "paper": "ours",
        "experiment": "a-test",
        "run": "staged",
        "point": "only",
        "dataset": "digits",
        "split": "train",
        "partition": {"kind": "horizontal", "assignment": "shuffled", "clients": 2},
        "objective": {"name": "auc_min_max", "model": "cnn_8x8"},
        "algorithm": algorithm,
        "hyper_parameters": {**STEPS, **stages},
        "rounds": rounds,
        "record_every": 1,
        "seeds": [0],
    }
    return RunSpec.model_validate(content)


def stages_begun(algorithm: str, rounds: int, first_stage_rounds: int | None) -> int:
    """Stages of which at least one round takes place, by the schedule itself."""
    content = {**STEPS, "first_stage_rounds": first_stage_rounds}
    method = algorithm_class(algorithm).model_validate(content)
    stage, begun = method.first_stage, set()
    for _ in range(rounds):
        begun.add(stage.finished)
        stage = method.after_round(stage)
    return len(begun)


@pytest.mark.parametrize("algorithm", STAGED)
@given(rounds=st.integers(1, 30), first=st.none() | st.integers(1, 40))
def test_what_is_accepted_reaches_the_stages_that_it_asks_for(algorithm, rounds, first):
    begun = stages_begun(algorithm, rounds, first)
    run = a_run(algorithm, rounds, first)
    if first is None or begun >= 2:
        build_algorithm(run)
    else:
        with pytest.raises(FedatlasError, match="no second stage would begin"):
            build_algorithm(run)


def test_the_refusal_names_the_run_both_numbers_and_the_remedy():
    with pytest.raises(FedatlasError) as caught:
        build_algorithm(a_run("coda", 10, 10))
    text = str(caught.value)
    assert text.startswith(
        "a-test/staged/only: 'first_stage_rounds' is 10, but a run has 10 rounds"
    )
    assert text.endswith("lower it, or leave it out for a single stage")


def test_every_experiment_leaves_rounds_for_a_second_stage():
    # The plan itself refuses others; this says that it has looked at some of either kind.
    staged = [run for run in build_plan(CONFIG).runs.values() if run.algorithm in STAGED]
    assert {run.tuned_in is None for run in staged} == {True, False}
    for run in staged:
        # Without it there is one stage.
        assert (run.hyper_parameters.get("first_stage_rounds") or 0) < run.rounds
