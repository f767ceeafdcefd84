"""Methods in stages: a first stage that leaves no rounds for a second is refused beforehand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedatlas.algorithms import algorithm_class, build_algorithm
from fedatlas.errors import FedatlasError
from fedatlas.schema.runs import RunSpec
from small_federations import small

STAGED = ("coda", "coda_plus", "codasca")


def a_run(algorithm: str, rounds: int, first: int | None) -> RunSpec:
    return small(algorithm, {"first_stage_rounds": first}, rounds=rounds)


def stages_begun(run: RunSpec) -> int:
    """Stages of which at least one round takes place, by the schedule itself."""
    method = algorithm_class(run.algorithm).model_validate(run.hyper_parameters)
    stage, begun = method.first_stage, set()
    for _ in range(run.rounds):
        begun.add(stage.finished)
        stage = method.after_round(stage)
    return len(begun)


@pytest.mark.parametrize("algorithm", STAGED)
@given(rounds=st.integers(1, 30), first=st.none() | st.integers(1, 40))
def test_what_is_accepted_reaches_the_stages_that_it_asks_for(algorithm, rounds, first):
    run = a_run(algorithm, rounds, first)
    if first is None or stages_begun(run) >= 2:
        build_algorithm(run)
    else:
        with pytest.raises(FedatlasError, match="no second stage would begin"):
            build_algorithm(run)


def test_the_refusal_names_the_run_both_numbers_and_the_remedy():
    with pytest.raises(FedatlasError) as caught:
        build_algorithm(a_run("coda", 10, 10))
    text = str(caught.value)
    assert text.startswith(
        "test-small/coda/only: 'first_stage_rounds' is 10, but a run has 10 rounds"
    )
    assert text.endswith("lower it, or leave it out for a single stage")
