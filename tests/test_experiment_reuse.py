"""Experiments that take over keys, or runs, of others."""

from pathlib import Path

import pytest
import yaml

from fedatlas.errors import FedatlasError
from fedatlas.schema.experiment_files import load_experiments

BASE = {
    "paper": "fedpage",
    "title": "base",
    "source": "Figure 1",
    "dataset": "a9a",
    "partition": {"kind": "horizontal", "clients": 10},
    "objective": {"name": "logistic_nonconvex", "weight": 0.1},
    "rounds": 20,
    "record_every": 5,
    "seeds": [0, 1],
    "runs": {
        name: {"algorithm": "fedavg", "hyper_parameters": {}} for name in ("one", "two", "three")
    },
}


def load(folder: Path, **contents):
    group = folder / "paper"
    group.mkdir(exist_ok=True)
    for name, content in contents.items():
        (group / f"{name}.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    return load_experiments(folder)


def test_like_takes_over_what_is_not_stated(tmp_path):
    other = {"like": "paper-base", "title": "other", "rounds": 40}
    base, copy = load(tmp_path, base=BASE, other=other).values()
    assert (copy.title, copy.rounds) == ("other", 40)
    assert copy.runs == base.runs and copy.seeds == base.seeds and copy.source == base.source
    assert base.rounds == 20


def test_like_goes_on_to_the_model_of_a_model(tmp_path):
    third = {"like": "paper-other", "seeds": [7]}
    experiments = load(tmp_path, base=BASE, other={"like": "paper-base", "rounds": 40}, third=third)
    assert experiments["paper-third"].rounds == 40
    assert experiments["paper-third"].seeds == (7,)


@pytest.mark.parametrize("model", ["paper-nobody", "paper-other", 3])
def test_like_names_another_experiment(tmp_path, model):
    with pytest.raises(FedatlasError, match=r"other\.yaml: key 'like': .* is no other experiment"):
        load(tmp_path, base=BASE, other={"like": model})


def test_like_in_a_circle_is_refused(tmp_path):
    with pytest.raises(FedatlasError, match="key 'like'"):
        load(tmp_path, a={"like": "paper-b"}, b={"like": "paper-a"})


def test_only_shows_some_runs_in_the_order_asked_for(tmp_path):
    figure = {
        "paper": "fedpage",
        "title": "some",
        "source": "Figure 2",
        "runs_of": "paper-base",
        "only": ["three", "one"],
    }
    shown = load(tmp_path, base=BASE, figure=figure)["paper-figure"]
    assert list(shown.runs) == ["three", "one"]


def test_only_names_runs_that_there_are(tmp_path):
    figure = {"title": "some", "source": "", "runs_of": "paper-base", "only": ["four"]}
    with pytest.raises(FedatlasError, match="has no run 'four'; its runs are one, two, three"):
        load(tmp_path, base=BASE, figure={"paper": "fedpage", **figure})


def test_only_belongs_to_runs_of(tmp_path):
    with pytest.raises(FedatlasError, match="key 'only': belongs to 'runs_of'"):
        load(tmp_path, base=BASE | {"only": ["one"]})


def test_a_copy_that_shows_other_runs_leaves_those_of_its_model(tmp_path):
    figure = {"paper": "fedpage", "title": "f", "source": "2", "runs_of": "paper-base"}
    again = {"like": "paper-figure", "runs_of": "paper-other", "title": "g"}
    experiments = load(
        tmp_path,
        base=BASE,
        other={"like": "paper-base", "rounds": 60},
        figure=figure,
        again=again,
    )
    assert experiments["paper-figure"].rounds == 20
    assert experiments["paper-again"].rounds == 60
    own = {"like": "paper-base", "runs_of": "paper-other", "title": "h"}
    assert load(tmp_path, own=own)["paper-own"].rounds == 60


def with_rounds(**rounds):
    """The base, in which some runs take rounds of their own."""
    runs = {name: run | {"rounds": rounds.get(name)} for name, run in BASE["runs"].items()}
    return BASE | {"runs": runs}


def test_rounds_of_a_run_come_along_with_it(tmp_path):
    base = with_rounds(two=60)
    base["runs"]["two"]["record_every"] = 7
    figure = {"paper": "fedpage", "title": "f", "source": "2", "runs_of": "paper-base"}
    other = {"like": "paper-base", "rounds": 40}
    experiments = load(tmp_path, base=base, figure=figure, other=other)
    for name, others in (("paper-base", 20), ("paper-figure", 20), ("paper-other", 40)):
        found = experiments[name]
        assert [found.rounds_of(run) for run in found.runs] == [others, 60, others]
        assert [found.record_every_of(run) for run in found.runs] == [5, 7, 5]


@pytest.mark.parametrize("key", ["rounds", "record_every"])
def test_rounds_of_a_run_are_positive(tmp_path, key):
    run = {"algorithm": "fedavg", "hyper_parameters": {}, key: 0}
    with pytest.raises(FedatlasError, match=rf"base\.yaml: key 'runs\.one\.{key}', value 0"):
        load(tmp_path, base=BASE | {"runs": {"one": run}})


def test_a_comparison_by_rounds_lies_within_those_of_both_runs(tmp_path):
    test = {"kind": "order", "first": "one", "second": "two", "relation": "faster", "at": 50}
    claims = [{"id": "c", "source": "", "statement": "", "test": test}]
    for rounds in ({}, {"one": 60}, {"two": 60}):
        with pytest.raises(FedatlasError, match=r"'at' is 50, but run '(one|two)' takes 20 rounds"):
            load(tmp_path, base=with_rounds(**rounds) | {"claims": claims})
    load(tmp_path, base=with_rounds(one=60, two=50) | {"claims": claims})


def test_every_measurement_of_a_figure_must_be_measured(tmp_path):
    partition = BASE["partition"] | {"test": "test"}
    shown = {"measurement": "objective", "also": ["suboptimality"]}
    (base,) = load(tmp_path, base=BASE | {"figure": shown}).values()
    assert base.measures_suboptimality
    shown = {"measurement": "objective", "also": ["test_accuracy", "test_auroc"]}
    with pytest.raises(FedatlasError, match=r"the figure looks at test_accuracy, .* no test rows"):
        load(tmp_path, base=BASE | {"figure": shown})
    with pytest.raises(FedatlasError, match=r"the figure looks at test_auroc, .* does not measure"):
        load(tmp_path, base=BASE | {"partition": partition, "figure": shown})


def test_untrained_experiments_compute_something(tmp_path):
    with pytest.raises(FedatlasError, match="'trained: false' needs 'budgets' or 'privacy_audit'"):
        load(tmp_path, base=BASE | {"trained": False})


def test_claims_about_budgets_need_them_and_claims_about_training_need_that(tmp_path):
    claim = {"id": "c", "source": "", "statement": ""}
    order = {"kind": "budget_order", "smaller": "one", "than": ["two"]}
    with pytest.raises(FedatlasError, match="kind budget_order needs 'budgets'"):
        load(tmp_path, base=BASE | {"claims": [claim | {"test": order}]})
    stands = {"kind": "audit_stands", "run": "one"}
    with pytest.raises(FedatlasError, match="kind audit_stands needs 'privacy_audit'"):
        load(tmp_path, base=BASE | {"claims": [claim | {"test": stands}]})
    faster = {"kind": "order", "first": "one", "second": "two", "relation": "faster"}
    untrained = {"trained": False, "budgets": {"samples": 1, "dimension": 1, "last_horizon": 1}}
    with pytest.raises(FedatlasError, match="kind order needs 'trained: true'"):
        load(tmp_path, base=BASE | untrained | {"claims": [claim | {"test": faster}]})
