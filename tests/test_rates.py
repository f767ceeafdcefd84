"""Rates beside curves: what formulas are, what they are worth, and where they are drawn."""

import ast
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from fedatlas.errors import FedatlasError
from fedatlas.schema.experiments import Experiment
from fedatlas.schema.figures import Figure
from fedatlas.schema.models import validated
from fedatlas.schema.rates import evaluate, formula_names
from figure_factory import TITLES, caption, composed, figure_of, is_drawn, legend
from trace_factory import make_trace
from workflow_copy import EXPERIMENT

ROUNDS = np.arange(0.0, 310.0, 10.0)
FEW = settings(max_examples=60, deadline=None)

# Formulas.

NAMES = {"round": np.array([1.0, 3.0, 80.0]), "step_size": 0.25, "c": 2.0, "scheme.gamma": 0.5}
BINARY = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "**": np.float_power}
UNARY = {"sqrt": np.sqrt, "exp": np.exp, "log": np.log, "-": np.negative, "+": np.positive}


def _larger(inner):
    """Texts with what they are worth, of two or of one that are within."""
    pair = st.tuples(inner, st.sampled_from(sorted(BINARY)), inner)
    single = st.tuples(st.sampled_from(sorted(UNARY)), inner)
    return pair.map(
        lambda of: (
            f"({of[0][0]}) {of[1]} ({of[2][0]})",
            lambda: BINARY[of[1]](of[0][1](), of[2][1]()),
        )
    ) | single.map(lambda of: (f"{of[0]}({of[1][0]})", lambda: UNARY[of[0]](of[1][1]())))


NAMED = st.sampled_from([(name, lambda value=value: value) for name, value in NAMES.items()])
NUMBERS = st.floats(0, 1e6).map(lambda value: (repr(value), lambda: value))


@FEW
@given(st.recursive(NAMED | NUMBERS, _larger, max_leaves=6))
def test_values_are_those_of_numpy(formula):
    text, worth = formula
    if len(text) <= 200:
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(evaluate(text, NAMES), np.float64(worth()))


def test_precedence_is_that_of_mathematics():
    found = evaluate("4 * 0.69 / (step_size * round) ** 0.5 - -2", NAMES)
    np.testing.assert_allclose(found, 4 * 0.69 / (0.25 * NAMES["round"]) ** 0.5 + 2, rtol=1e-15)
    assert evaluate("2 ** -1 ** 2", {}) == 0.5 and evaluate("-2 ** 2", {}) == -4


WORDS = (*NAMES, "sqrt", "1e9", "__import__", "if", "lambda")
PARTS = st.sampled_from([*"+-*/^().,[]{}:=@!<>'\"\\\0\n ", *WORDS])
KNOWN = (
    *(ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.Constant, ast.Call, ast.Name),
    *(ast.Attribute, ast.expr_context),
)


@FEW
@given(st.text() | st.lists(PARTS, max_size=12).map("".join))
@example("__import__('os').system('true') + round")
@example("(lambda: round)()")
@example("round.__class__.__base__")
@example("[round for round in (1,)]")
@example("9 ** 9 ** 9 ** 9 * round")
@example("(" * 199)
@example("-" * 199 + "1")
@example("9" * 5000)
@example("1_0 * round")
@example("c * True / round")
def test_any_text_is_arithmetic_or_refused(text):
    declared = {"rates": {"page": {"a": text}}}
    try:
        figure = validated(Figure, declared, "e.yaml: figure")
    except FedatlasError as error:
        assert str(error).startswith("e.yaml: figure")
        return
    for part in ast.walk(ast.parse(figure.rates["page"]["a"].strip(), mode="eval").body):
        assert isinstance(part, KNOWN)
        assert not isinstance(part, ast.Call) or part.func.id in ("sqrt", "exp", "log")
        assert not isinstance(part, ast.Constant) or type(part.value) in (int, float)
    assert evaluate(text, dict.fromkeys(formula_names(text), 0.5)).dtype == np.float64


@pytest.mark.parametrize(
    ("formula", "told"),
    [
        ("c / rounds", r"names no cost .* write one, such as 'round'"),
        ("c / round ^ 2", r"write \*\* for a power"),
        ("abs(round)", r"'abs\(round\)' is none of numbers, names, .* sqrt, exp, log"),
        ("c ** 2 / round", r"'c' is the factor .* write it once"),
        ("c / round +", r"is no formula: invalid syntax"),
        ("1 / round" + " " * 200, r"at most 200 characters"),
    ],
)
def test_a_wrong_formula_is_named_with_its_key(formula, told):
    with pytest.raises(FedatlasError, match=rf"rates\.page\.O.*{told}"):
        validated(Figure, {"rates": {"page": {"O": formula}}}, "figure")


@pytest.mark.parametrize(
    ("run", "formula", "told"),
    [
        ("scaffold", "local_stepsize / round", r"rates\.scaffold\.T: .*; similar: local_step_size"),
        ("fedpage", "c * global_step_size / round", None),
        ("fedavg", "1 / (round * local_step_size)", None),
        ("nobody", "c / round", "the figure names the run 'nobody'"),
    ],
)
def test_an_experiment_says_which_name_its_run_lacks(run, formula, told):
    declared = yaml.safe_load(EXPERIMENT) | {"figure": {"rates": {run: {"T": formula}}}}
    if told is None:
        assert Experiment.model_validate(declared).figure.rates == {run: {"T": formula}}
    else:
        with pytest.raises(ValidationError, match=told):
            Experiment.model_validate(declared)


# Lines.


def falling(values, **options):
    """Three seeds around the values, whose median they are."""
    return make_trace(np.asarray(values) * np.array([[0.9], [1.0], [1.2]]), **options)


TRACES = {
    "page": {"p": falling(1 / (1 + ROUNDS))},
    "avg": {"p": falling(0.99**ROUNDS, hyper_parameters={"scheme": {"gamma": 0.1}, "name": "x"})},
}


def lines(place, count):
    """Those of rates, which are drawn last."""
    return [line.get_xydata() for line in place.lines[-count:]]


def test_a_rate_goes_through_its_curve_and_along_every_cost():
    rates = {"page": {"O(1/r)": "c / round", "exact": "1 / (1 + round)"}}
    canvas = composed(TRACES, figure_of(rates=rates, costs=["round", "bytes"]))
    rounds, sent = canvas.axes
    scaled, exact = lines(rounds, 2)
    # The 16th of 31 records.
    at = scaled[:, 0].tolist().index(150.0)
    assert scaled[at, 1] == pytest.approx(1 / 151)
    np.testing.assert_allclose(scaled[:, 1], 150 / 151 / scaled[:, 0])
    np.testing.assert_allclose(exact[:, 1], 1 / (1 + exact[:, 0]))
    np.testing.assert_allclose(lines(sent, 2)[1], exact * [1000, 1])
    assert legend(sent) == [TITLES["page"], "O(1/r)", "exact", TITLES["avg"]]
    assert caption(canvas).endswith("go through their curve at its middle record.")


def test_it_knows_the_start_and_the_hyper_parameters():
    rates = {"avg": {"T": "start * (1 - scheme.gamma / 10) ** round"}}
    canvas = composed(TRACES, figure_of(rates=rates, costs=["round"]))
    ((x, y),) = (found.T for found in lines(canvas.axes[0], 1))
    np.testing.assert_allclose(y, 0.99**x)
    assert "factor" not in caption(canvas)
    for name, told in (("name", "'name' is 'x', which is no number"), ("gama", "names 'gama'")):
        figure = figure_of(rates={"avg": {"T": f"{name} / round"}})
        with pytest.raises(FedatlasError, match=rf"figure\.rates\.avg\.T: .*{told}"):
            composed(TRACES, figure)
    with pytest.raises(FedatlasError, match="has no 'simulated_time'"):
        composed(TRACES, figure_of(rates={"avg": {"T": "1 / simulated_time"}}))


def test_the_axis_is_the_curves_and_holds_the_middle_of_every_rate():
    def limits(**rates):
        figure = figure_of(rates={"page": rates}, costs=["round"])
        return composed(TRACES, figure).axes[0].get_ylim()

    low, high = composed(TRACES, figure_of(costs=["round"])).axes[0].get_ylim()
    assert limits(fast="c * 0.5 ** round") == (low, high)
    above = limits(bound="1500 / round")
    assert above[0] == low and 10 < above[1] < 25
    below = limits(bound="0.0015 / round")
    assert below[1] == high and 3e-6 < below[0] < 1e-5


def test_a_rate_is_of_the_measurement_and_of_the_chosen_point():
    points = {f"p{step}": falling(0.99**ROUNDS, step=step) for step in (0.1, 0.3)}
    rates = {"page": {"T": "step_size / round"}}
    figure = figure_of(rates=rates, rows="effective_step_size", also=["objective"], costs=["round"])
    drawn = [len(place.lines) for place in composed({"page": points}, figure).axes]
    bare = figure_of(rows="effective_step_size", also=["objective"], costs=["round"])
    without = [len(place.lines) for place in composed({"page": points}, bare).axes]
    assert np.subtract(drawn, without).tolist() == [1, 0, 0, 0]


@pytest.mark.filterwarnings("error")
def test_it_draws(tmp_path: Path):
    rates = {
        "page": {"O(1/r)": "c / round"},
        "avg": {"O(ρʳ)": "c * 0.99 ** round", "∞": "1/(0*round)"},
    }
    lost = {**TRACES, "scaffold": {"p": make_trace(np.full((2, 31), np.nan))}}
    figure = figure_of(rates=rates | {"scaffold": {"a": "c / round"}})
    is_drawn([tmp_path / "figure.png"], composed, lost, figure)
