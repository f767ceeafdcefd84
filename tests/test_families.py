"""Families: what experiment files state once over named lists."""

import re
import shutil
from itertools import product
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from experiment_files import BASE, RUN, load
from fedatlas.cli import app
from fedatlas.errors import FedatlasError
from fedatlas.schema.experiment_files import load_experiments, read_experiments
from fedatlas.schema.families import expand

README = Path(__file__).parent.parent / "config" / "experiments" / "README.md"

items = st.one_of(st.integers(-1000, 1000), st.from_regex(r"[a-z][a-z0-9-]{0,5}", fullmatch=True))
lists_of_items = st.lists(items, max_size=4, unique_by=str)
texts = st.text(max_size=8)
plain = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), texts),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(texts, inner, max_size=4)),
    max_leaves=8,
)


def one(content):
    """The only experiment of a file."""
    (experiment,) = expand(content, "fig", "file").values()
    return experiment


@given(st.dictionaries(texts.filter(lambda key: key != "lists"), plain, max_size=4))
def test_a_file_without_lists_stays_as_it_is(content):
    assert expand(content, "fig", "file") == {"fig": content}


def doubled(value):
    """With braces that stand for themselves."""
    if isinstance(value, str):
        return value.replace("{", "{{").replace("}", "}}")
    if isinstance(value, list):
        return [doubled(element) for element in value]
    if isinstance(value, dict):
        return {doubled(key): doubled(inner) for key, inner in value.items()}
    return value


@given(plain)
def test_what_mentions_no_list_stays_as_it_is(value):
    content = {"lists": {"used": ["a"]}, "kept": [doubled(value)], "runs": {"{used}": 1}}
    assert one(content) == {"kept": [value], "runs": {"a": 1}}


@given(lists_of_items, lists_of_items, st.booleans())
def test_a_run_is_repeated_over_the_lists_of_its_name(first, second, swapped):
    lists = {"a": first, "b": second}
    if swapped:
        lists = dict(reversed(lists.items()))
    content = {
        "lists": lists,
        "runs": {"x_{b}_{a}": {"title": "{a} of {b}", "value": "{a}"}},
        "named": ["x_{b}_{a}", "last"],
    }
    pairs = [(a, b) if not swapped else (b, a) for a, b in product(*lists.values())]
    expected = {f"x_{b}_{a}": {"title": f"{a} of {b}", "value": a} for a, b in pairs}
    found = one(content)
    assert list(found["runs"].items()) == list(expected.items())
    assert all(type(run["value"]) in (int, str) for run in found["runs"].values())
    assert found["named"] == [*expected, "last"]


@given(st.dictionaries(st.from_regex(r"[a-z]{1,4}", fullmatch=True), plain, min_size=1, max_size=4))
def test_a_placeholder_alone_gives_the_value_itself(fields):
    content = {
        "lists": {"data": {"d": {"of": doubled({"of": fields})["of"]}}},
        "name": "{data}",
        "found": "{data.of}",
        "each": [f"{{data.of.{field}}}" for field in fields],
    }
    assert one(content) == {"found": fields, "each": [*fields.values()]}


def test_a_file_states_an_experiment_for_each_item_of_its_name():
    content = {
        "name": "fig{number}-{data}",
        "lists": {
            "number": [2, 3],
            "data": {
                "small": {"rounds": {2: 20, 3: 30}, "clients": {5: {"rate": 1}}},
                "large": {"rounds": {2: 2, 3: 3}, "clients": {}},
            },
            "k": "{data.clients}",
        },
        "rounds": "{data.rounds[number]}",
        "runs": {"k{k}": {"rate": "{k.rate}", "title": "{data}, figure {number}"}},
    }
    found = expand(content, "file", "file")
    assert found == {
        "fig2-small": {"rounds": 20, "runs": {"k5": {"rate": 1, "title": "small, figure 2"}}},
        "fig2-large": {"rounds": 2, "runs": {}},
        "fig3-small": {"rounds": 30, "runs": {"k5": {"rate": 1, "title": "small, figure 3"}}},
        "fig3-large": {"rounds": 3, "runs": {}},
    }
    assert list(found) == ["fig2-small", "fig2-large", "fig3-small", "fig3-large"]


def test_a_field_that_an_item_lacks_leaves_the_entry_out():
    content = {
        "lists": {"m": {"a": {"extra": None}, "b": {}}},
        "runs": {"{m}": {"values": {"kept": 1, "extra": "{m.extra}"}, "list": ["{m.extra}"]}},
    }
    assert one(content)["runs"] == {
        "a": {"values": {"kept": 1, "extra": None}, "list": [None]},
        "b": {"values": {"kept": 1}, "list": []},
    }


def claims(*declared):
    content = {"lists": {"m": ["a", "b"], "q": [1, 2]}, "use": ["{m}{q}"], "claims": [*declared]}
    return [claim["id"] for claim in one(content)["claims"]]


def test_claims_are_repeated_alone_or_together():
    first, second = {"id": "{m}-first"}, {"id": "{m}-second-{q}"}
    assert claims(first, second) == [
        *("a-first", "b-first"),
        *("a-second-1", "a-second-2", "b-second-1", "b-second-2"),
    ]
    assert claims({"over": "m", "claims": [first, second]}, {"id": "plain"}) == [
        *("a-first", "a-second-1", "a-second-2"),
        *("b-first", "b-second-1", "b-second-2"),
        "plain",
    ]
    nested = {"over": ["q"], "claims": [{"over": ["m"], "claims": [first | {"id": "{q}{m}"}]}]}
    assert claims(nested) == ["1a", "1b", "2a", "2b"]


def run(value, name="{q}", **lists):
    return {"runs": {name: {"t": value}}} | ({"lists": lists} if lists else {})


WRONG = [
    ({"lists": ["q"]}, "key 'lists': must be a mapping"),
    ({"lists": {"Q": [1]}}, "key 'lists.Q': names have small letters"),
    ({"lists": {"q": 3}}, "key 'lists.q': must be a list, or a mapping of names to their fields"),
    ({"lists": {"q": {"a": 1}}}, "key 'lists.q': must be a list, or a mapping of names"),
    ({"lists": {"q": [1, 1]}}, "key 'lists.q': must list different texts or numbers"),
    ({"lists": {"q": [1, [2]]}}, "key 'lists.q': must list different texts or numbers"),
    ({"lists": {"q": [True]}}, "key 'lists.q': must list different texts or numbers"),
    ({"lists": {"q": [1]}}, "key 'lists.q': nothing mentions it; remove it"),
    (
        {"lists": {"q": {"a": {"x": 1, "y": 2}}}, "runs": {"{q}": "{q.x}"}},
        "key 'lists.q.a.y': nothing mentions '{q.y}'; remove it",
    ),
    ({"name": 3, "lists": {"q": [1]}, "runs": {"{q}": 1}}, "key 'name': must be text"),
    (
        {"name": "{q.of}", "lists": {"q": {"a": {"of": 1}, "b": {"of": 1}}}},
        "key 'name': two experiments are named '1'",
    ),
    (run("{p}"), "(fig): key 'runs.1.t': '{p}' in '{p}' mentions no list; write {list}"),
    (run("{q.title"), "key 'runs.1.t': '{' in '{q.title' mentions"),
    (run("{q.__class__}"), "'{q.__class__}' in"),
    (run("{q.title}"), "key 'runs.1.t': '{q.title}': no 'title'"),
    ({"runs": {"x": {"t": "{q}"}}}, "key 'runs.x.t': mentions 'q', but nothing here"),
    (
        {"runs": {"same": 1, "{q.name}": 2}, "lists": {"q": {1: {"name": "same"}}}},
        "key 'runs.same': stands twice once its name is filled in",
    ),
    (run({"q": None}), "key 'runs.1.t': {q} without quotes is a mapping; write \"{q}\""),
    (
        run("n = {q.n}", q={1: {}, 2: {"n": 3}}),
        "key 'runs.1.t': '{q.n}' leaves it out here, but stands within text",
    ),
    (run("n = {q.n}", q={2: {"n": [3]}}), "key 'runs.2.t': '{q.n}' is no text or number, but"),
    (
        run("{q.n[m]}", q={1: {"n": {"a": 3}}}, m=["a"]),
        "key 'runs.1.t': mentions 'm', but nothing here is repeated over it",
    ),
    (
        run("{q.n[m]}", "{q}-{m}", q={1: {"n": {"a": 3}}}, m=["a", "b"]),
        "key 'runs.1-b.t': '{q.n[m]}': no 'b'; there are: a",
    ),
    (
        {"claims": [{"over": "q", "claims": {"id": "a"}}]},
        "key 'claims': 'over' and 'claims' are lists",
    ),
    ({"claims": [{"id": "c{q}", "title": "{p}"}]}, "key 'claims.c1.title': '{p}' in"),
    ({"claims": [{"over": "p", "claims": []}], "x": "{{{q}}}"}, "key 'claims.over': '{p}' in"),
]


@pytest.mark.parametrize(("content", "message"), WRONG)
def test_errors_name_file_key_and_expanded_name(content, message):
    declared = {"lists": {"q": [1, 2]}} | content
    with pytest.raises(FedatlasError) as caught:
        expand(declared, "fig", "file.yaml")
    assert str(caught.value).startswith("file.yaml")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "of",
    [
        {"runs": {"{a}-{b}-{c}": 1}},
        {"runs": ["{a}-{b}-{c}"]},
        {"runs": {"{a}-{b}": "{a.large}"}, "more": ["{c}"]},
    ],
)
def test_few_lines_do_not_become_any_number(of):
    many = {f"i{number}": {"large": [0] * 100} for number in range(60)}
    content = {"lists": {"a": many, "b": [*range(60)], "c": [*range(60)]}, "more": [], **of}
    content["used"] = {"{a}": "{a.large[b]}"} if not content["more"] else {}
    with pytest.raises(FedatlasError, match="becomes more than 200000 values; split it"):
        expand(content, "fig", "file")


DATA = {"lists": {"data": ["a", "b"]}}


def test_experiments_of_a_file_are_known_by_their_names(tmp_path):
    base = BASE | DATA | {"name": "base-{data}"}
    like = DATA | {"like": "paper-base-{data}", "name": "x{data}", "rounds": 40}
    found = load(tmp_path, base=base, like=like)
    assert list(found) == ["paper-base-a", "paper-base-b", "paper-xa", "paper-xb"]
    assert [experiment.rounds for experiment in found.values()] == [20, 20, 40, 40]
    assert found["paper-xb"].where == f"{tmp_path}/paper/like.yaml (paper-xb)"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "b.{data}"}, r"base\.yaml: 'b\.a': experiments are named"),
        ({"name": "other"}, r"'paper-other' is declared in .*base\.yaml .*, too"),
        ({"name": "{data}", "rounds": 0}, r"base\.yaml \(paper-a\): key 'rounds', value 0"),
    ],
)
def test_names_and_values_of_expanded_experiments_are_checked(tmp_path, changes, message):
    base = BASE | DATA | {"runs": {"{data}": RUN}} | changes
    with pytest.raises(FedatlasError, match=message):
        load(tmp_path, base=base, other=base | {"name": "other"})


def test_the_worked_example_becomes_what_is_printed_beside_it(tmp_path):
    text = README.read_text(encoding="utf-8")
    declared, printed = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    (tmp_path / "example").mkdir()
    (tmp_path / "example" / "fig7.yaml").write_text(declared, encoding="utf-8")
    found = read_experiments(tmp_path)
    assert list(found) == ["example-fig7-large", "example-fig7-small"]
    assert found["example-fig7-small"][1] == yaml.safe_load(printed)
    assert len(load_experiments(tmp_path)["example-fig7-large"].claims) == 2
    # The command prints the same, and says where it is declared.
    (tmp_path / "experiments").mkdir()
    (tmp_path / "example").rename(tmp_path / "experiments" / "example")
    for name in ("datasets.yaml", "papers.yaml"):
        shutil.copy(README.parents[1] / name, tmp_path)
    outcome = CliRunner().invoke(app, ["spec", "example-fig7-small", "--config", str(tmp_path)])
    where, _, text = outcome.stdout.partition("\n")
    assert (where, text) == (
        f"# {tmp_path}/experiments/example/fig7.yaml (example-fig7-small)",
        printed,
    )
    # It refuses what cannot run.
    wrong = declared.replace("record_every: 10", "record_every: 1000")
    (tmp_path / "experiments/example/fig7.yaml").write_text(wrong, encoding="utf-8")
    outcome = CliRunner().invoke(app, ["spec", "example-fig7-small", "--config", str(tmp_path)])
    assert "record_every: 1000 is more than the 400 rounds" in str(outcome.exception)


def test_an_unknown_experiment_is_not_printed(tmp_path):
    (tmp_path / "experiments").mkdir()
    load(tmp_path / "experiments", base=BASE)
    outcome = CliRunner().invoke(app, ["spec", "paper-bas", "--config", str(tmp_path)])
    assert "there is no experiment 'paper-bas'; did you mean paper-base" in str(outcome.exception)
