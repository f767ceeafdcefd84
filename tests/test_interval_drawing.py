"""Effects in few words and as small drawings: places, ends, and what readers are told."""

import math
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedatlas.evaluation.evidence import in_full, in_short
from fedatlas.evaluation.verdicts import would_decide
from fedatlas.pages.claims_page import WIDTH, drawing, ticks, to_svg
from fedatlas.schema.claims import Effect
from verdict_factory import effect, verdict

INF, NAN = math.inf, math.nan
ANY = st.floats(allow_nan=False)
SMALLEST = st.floats(1e-6, 1e3)


def points(low: float, estimate: float, high: float, smallest: float) -> Effect:
    return effect(estimate, low, high, smallest=smallest, unit="test_auroc")


class Drawn:
    """Places along a drawing, read off its paths."""

    def __init__(self, given: Effect) -> None:
        self.parts = drawing(given)
        begin = {name: re.findall(r"-?[\d.]+", path)[:3] for name, path in self.parts.items()}
        places = {name: [float(number) for number in found] for name, found in begin.items()}
        self.bar = places["bar"][0], places["bar"][2]
        self.band = (places["band"][0], places["band"][2]) if "band" in places else None
        self.dot = places["dot"][0] if "dot" in places else None
        self.mark = places["mark"][0] + 4 if "mark" in places else None
        # A closed end has an upright line, an open one an arrow.
        self.arrows = self.parts.get("arrow", "").count("Z")
        assert self.parts["bar"].count("v") + self.arrows == 2


@given(st.tuples(ANY, ANY, ANY).map(sorted), SMALLEST)
def test_places_keep_their_order_and_stay_within(ends, smallest):
    drawn = Drawn(points(*ends, smallest))
    assert drawn.dot is not None and drawn.band is not None
    assert 0 <= drawn.bar[0] <= drawn.dot <= drawn.bar[1] <= WIDTH
    # What is surely above the smallest effect lies beyond the band, and so on.
    if ends[0] >= smallest:
        assert drawn.bar[0] >= drawn.band[1]
    if ends[2] < 0:
        assert drawn.bar[1] <= WIDTH / 2


@given(st.tuples(ANY, ANY, ANY).map(sorted), SMALLEST)
def test_the_drawing_of_swapped_runs_is_mirrored(ends, smallest):
    one = Drawn(points(*ends, smallest))
    other = Drawn(points(*(-end for end in reversed(ends)), smallest))
    assert one.dot is not None and one.band is not None
    low, high = one.bar
    assert other.bar == (pytest.approx(WIDTH - high), pytest.approx(WIDTH - low))
    assert other.dot == pytest.approx(WIDTH - one.dot)
    assert other.arrows == one.arrows
    assert other.band == one.band == (pytest.approx(WIDTH - one.band[1]), one.band[1])


@given(st.tuples(*[st.floats(-1e3, 1e3)] * 3).map(sorted), SMALLEST, st.floats(1e-3, 1e3))
def test_the_drawing_does_not_depend_on_the_unit(ends, smallest, unit):
    one = Drawn(points(*ends, smallest))
    other = Drawn(points(*(unit * end for end in ends), unit * smallest))
    assert one.bar == pytest.approx(other.bar, abs=0.11)


def test_ticks_stand_at_ten_and_a_hundred_times_the_smallest_effect():
    places = []
    for often in (-100, -10, 10, 100):
        drawn = Drawn(points(often * 0.2, often * 0.2, often * 0.2, 0.2))
        places.append(drawn.dot)
    assert sorted(ticks()) == places


def test_infinite_ends_are_arrows_and_the_papers_effect_is_a_mark():
    whole = ["band", "tick", "zero", "bar"]
    for one, more, arrows in (
        (effect(), ["dot"], 0),
        (effect(0.1, -INF, INF), ["arrow", "dot"], 2),
        (effect(0.1, -0.1, INF), ["arrow", "dot"], 1),
        (effect(NAN, NAN, 0.1), ["arrow"], 1),
        (effect(published=0.3), ["mark", "dot"], 0),
    ):
        drawn = Drawn(one)
        assert (list(drawn.parts), drawn.arrows) == ([*whole, *more], arrows)


@pytest.mark.parametrize("ends", [(-0.008, 0.005, 0.018), (0.0, 0.0, 0.0), (-INF, 0.1, INF)])
def test_a_published_number_has_no_band_and_its_own_unit(ends):
    drawn = Drawn(replace(points(*ends, 0.0), published=0.0))
    assert (drawn.band, drawn.mark) == (None, WIDTH / 2)
    assert "tick" not in drawn.parts
    assert (drawn.bar[0] <= WIDTH / 2 <= drawn.bar[1]) == (ends[0] <= 0 <= ends[2])
    if math.isfinite(ends[0]) and ends[0] < ends[2]:
        # The interval fills a good part of the drawing.
        assert 0.3 < (drawn.bar[1] - drawn.bar[0]) / WIDTH < 0.9


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"])))
def test_any_unit_is_told_and_is_no_markup(unit):
    given = effect(unit=unit)
    svg = ElementTree.fromstring(to_svg(given))
    assert svg.get("role") == "img" and svg.get("aria-label") == svg[0].text == in_full(given)


# --- words ---

NONE = "no ratio (the first's typical seed has no value; from 10 times on)"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (effect(math.log10(3), math.log10(2), math.log10(4)), "0.333 times (0.25 to 0.5)"),
        (effect(-math.log10(3), -INF, INF), "3 times (0 to ∞)"),
        (effect(-INF, -INF, -1.0), NONE),
        (points(0.01, 0.02, 0.03, 0.005), "0.02 ahead (0.01 to 0.03)"),
        (points(-0.03, -0.02, 0.01, 0.005), "0.02 behind (-0.01 to 0.03)"),
        (points(-INF, 0.0, INF, 0.005), "0 ahead (-∞ to ∞)"),
        (effect(NAN, -INF, INF), "unknown"),
    ],
)
def test_effects_in_short(given, told):
    assert in_short(given) == told


@pytest.mark.parametrize(
    ("estimate", "low", "high", "told"),
    [(-1e-5, -2e-5, 1e-5, "1.00002 times (0.999977 to 1.00005)"),
     (-1e-9, -1e-9, -1e-9, "1.000000002 times (1.000000002 to 1.000000002)"),
     (0.0, 0.0, 0.0, "exactly 1 times (the same under every seed)"),
     (0.0, -1e-4, 0.0, "1 times (1 to 1.0002)")],
)  # fmt: skip
def test_a_ratio_never_rounds_to_one(estimate, low, high, told):
    assert in_short(effect(estimate=estimate, low=low, high=high)) == told


def test_published_numbers_are_told_by_where_ours_lies():
    number = points(-0.03, -0.02, 0.01, 0.0)
    assert in_short(number) == "0.02 below the printed (-0.01 to 0.03)"
    assert in_full(number) == "0.02 below the printed (-0.01 to 0.03); 10 seeds"


def test_effects_in_full_say_what_counts_and_what_the_paper_prints():
    assert in_full(effect(published=math.log10(2), seeds=1)) == (
        "0.331 times (0.302 to 0.363); a factor of 1.05 counts; the paper's is 2; 1 seed"
    )


def test_what_would_decide_is_told_of_the_undecided_only():
    found = verdict("demo-x/a", "undecided", effect=effect(needed=34))
    assert would_decide(found) == "about 34 seeds in all would decide"
    assert would_decide(replace(found, outcome="reproduced")) == ""
    assert would_decide(replace(found, effect=None)) == ""
    assert would_decide(replace(found, effect=effect(seeds=1))) == ""
    many = replace(found, effect=effect())
    assert would_decide(many) == "more than 200 seeds in all would decide"
    # A claim whose closest case is decided.
    assert would_decide(replace(many, effect=effect(p=0.001))) == ""
