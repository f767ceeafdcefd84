"""Experiments that take over keys, or runs, of others; and keys that do not suit each other."""

import pytest

from experiment_files import BASE, RUN, load
from fedatlas.errors import FedatlasError

FIGURE = {"paper": "ours", "title": "some", "source": "Figure 2", "runs_of": "paper-base"}


def test_like_takes_over_what_is_not_stated(tmp_path):
    other = {"extends": "paper-base", "title": "other", "rounds": 40}
    third = {"extends": "paper-other", "seeds": [7]}
    base, copy, again = load(tmp_path, base=BASE, other=other, third=third).values()
    assert (base.rounds, copy.title, copy.rounds) == (20, "other", 40)
    assert copy.runs == base.runs and copy.seeds == base.seeds and copy.source == base.source
    assert (again.title, again.rounds, again.seeds) == ("other", 40, (7,))


@pytest.mark.parametrize("model", ["paper-nobody", "paper-other", 3, ["paper-base"]])
@pytest.mark.parametrize(
    ("key", "message"),
    [("extends", "is no other experiment"), ("runs_of", "is no experiment that declares runs")],
)
def test_another_experiment_is_one_that_there_is(tmp_path, key, message, model):
    other = FIGURE | {key: model} if key == "runs_of" else {key: model}
    with pytest.raises(FedatlasError, match=rf"other\.yaml: key '{key}': .* {message}"):
        load(tmp_path, base=BASE, other=other)


def test_extending_in_a_circle_is_refused(tmp_path):
    with pytest.raises(FedatlasError, match="key 'extends'"):
        load(tmp_path, a={"extends": "paper-b"}, b={"extends": "paper-a"})


def test_only_shows_some_runs_in_the_order_asked_for(tmp_path):
    shown = load(tmp_path, base=BASE, figure=FIGURE | {"only": ["three", "one"]})["paper-figure"]
    assert list(shown.runs) == ["three", "one"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"only": ["four"]}, "has no run 'four'; its runs are one, two, three"),
        ({"only": [["one"]]}, r"has no run '\['one'\]'; its runs are one, two, three"),
        ({"only": "one"}, r"figure\.yaml: key 'only', value 'one'"),
        ({"rounds": 20}, "key 'rounds': is that of 'paper-base'"),
    ],
)
def test_what_shows_other_runs_names_them_and_states_none(tmp_path, changes, message):
    with pytest.raises(FedatlasError, match=message):
        load(tmp_path, base=BASE, figure=FIGURE | changes)


def test_a_copy_that_shows_other_runs_leaves_those_of_its_model(tmp_path):
    again = {"extends": "paper-figure", "runs_of": "paper-other", "title": "g"}
    other = {"extends": "paper-base", "rounds": 60}
    experiments = load(tmp_path, base=BASE, other=other, figure=FIGURE, again=again)
    assert experiments["paper-figure"].rounds == 20
    assert experiments["paper-again"].rounds == 60
    own = {"extends": "paper-base", "runs_of": "paper-other", "title": "h"}
    assert load(tmp_path, own=own)["paper-own"].rounds == 60


def with_rounds(**rounds):
    """The base, in which some runs take rounds of their own."""
    runs = {name: run | {"rounds": rounds.get(name)} for name, run in BASE["runs"].items()}
    return BASE | {"runs": runs}


def test_rounds_of_a_run_come_along_with_it(tmp_path):
    base = with_rounds(two=60)
    base["runs"]["two"]["record_every"] = 7
    other = {"extends": "paper-base", "rounds": 40}
    experiments = load(tmp_path, base=base, figure=FIGURE, other=other)
    for name, others in (("paper-base", 20), ("paper-figure", 20), ("paper-other", 40)):
        found = experiments[name]
        assert [found.rounds_of(run) for run in found.runs] == [others, 60, others]
        assert [found.record_every_of(run) for run in found.runs] == [5, 7, 5]


def test_a_comparison_by_rounds_lies_within_those_of_both_runs(tmp_path):
    test = {"kind": "order", "first": "one", "second": "two", "relation": "faster", "at": 50}
    claims = [{"id": "c", "source": "", "statement": "", "test": test}]
    for rounds in ({}, {"one": 60}, {"two": 60}):
        with pytest.raises(FedatlasError, match=r"'at' is 50, but run '(one|two)' takes 20 rounds"):
            load(tmp_path, base=with_rounds(**rounds) | {"claims": claims})
    load(tmp_path, base=with_rounds(one=60, two=50) | {"claims": claims})


def test_what_a_figure_shows_decides_what_is_measured(tmp_path):
    shown = {"measurement": "objective", "also": ["suboptimality"]}
    (base,) = load(tmp_path, base=BASE | {"figure": shown}).values()
    assert base.measures_suboptimality


def claim(kind, **keys):
    test = {"kind": kind, **keys}
    return {"claims": [{"id": "c", "source": "", "statement": "", "test": test}]}


OF_TESTS = {"measurement": "objective", "also": ["test_accuracy", "test_auroc"]}
FASTER = claim("order", first="one", second="two", relation="faster")
BUDGETS = {"budgets": {"samples": 1, "dimension": 1, "last_horizon": 1}}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"only": ["one"]}, "key 'only': belongs to 'runs_of'"),
        ({"runs": {"one": RUN | {"rounds": 0}}}, r"base\.yaml: key 'runs\.one\.rounds', value 0"),
        ({"figure": OF_TESTS}, r"the figure looks at test_accuracy, .* no test rows"),
        (
            {"figure": OF_TESTS, "partition": BASE["partition"] | {"test": "test"}},
            r"the figure looks at test_auroc, .* does not measure",
        ),
        ({"trained": False}, "'trained: false' needs 'budgets', 'privacy_audit' or 'worst_cases'"),
        (claim("budget_order", smaller="one", than=["two"]), "budget_order needs 'budgets'"),
        (claim("audit_stands", run="one"), "kind audit_stands needs 'privacy_audit'"),
        ({"trained": False} | BUDGETS | FASTER, "kind order needs 'trained: true'"),
    ],
)
def test_keys_that_do_not_suit_each_other_are_refused(tmp_path, changes, message):
    with pytest.raises(FedatlasError, match=message):
        load(tmp_path, base=BASE | changes)
