"""Effects drawn small: the interval against zero and the smallest effect that counts.

All drawings of comparisons have one scale, so that they can be compared down a column: in units of
the smallest effect that counts, linear near zero and logarithmic further out (asinh). To the right
lies what is in favour of the claim. Published numbers have no such unit: theirs is the prediction
interval's own. Nothing depends on colour: each part has a shape of its own.
"""

import html
import math
from dataclasses import dataclass

from fedatlas.evaluation.verdict_words import in_full
from fedatlas.schema.claims import Effect

WIDTH, HEIGHT = 220, 24
_MIDDLE, _REACH = WIDTH / 2, WIDTH / 2 - 6
#: How often the smallest effect fits between zero and the edge; what lies beyond is an arrow.
_FURTHEST = 300.0
#: At how often the smallest effect there are ticks.
TICKS = (10, 100)


@dataclass(frozen=True)
class Drawing:
    """Places along the drawing, from the left in its units.

    band: ±the smallest effect, None of a published number. bar: the interval. beyond: whether its
    ends lie further out. dot: the estimate, mark: the paper's effect, None where there is none.
    words: for who does not see.
    """

    band: tuple[float, float] | None
    bar: tuple[float, float]
    beyond: tuple[bool, bool]
    dot: float | None
    mark: float | None
    words: str


def drawing(effect: Effect) -> Drawing:
    """The drawing of an effect."""
    low = -math.inf if math.isnan(effect.low) else effect.low
    high = math.inf if math.isnan(effect.high) else effect.high
    unit = effect.smallest or _own_unit(low, effect.estimate, high)
    furthest = _FURTHEST * unit

    def place(value: float) -> float:
        share = math.asinh(value / unit) / math.asinh(_FURTHEST)
        return round(_MIDDLE + _REACH * min(1.0, max(-1.0, share)), 1)

    def placed(value: float | None) -> float | None:
        return None if value is None or math.isnan(value) else place(value)

    return Drawing(
        band=(place(-unit), place(unit)) if effect.smallest else None,
        bar=(place(low), place(high)),
        beyond=(low < -furthest, high > furthest),
        dot=placed(effect.estimate),
        mark=placed(effect.published),
        words=in_full(effect),
    )


def _own_unit(low: float, estimate: float, high: float) -> float:
    """Of which an interval, or else the estimate, is ten."""
    for size in ((high - low) / 2, abs(estimate)):
        if math.isfinite(size) and size > 0:
            return size / 10
    return 1.0


def ticks() -> list[float]:
    """Where `TICKS` stand, on both sides."""
    places = [_REACH * math.asinh(often) / math.asinh(_FURTHEST) for often in TICKS]
    return [round(_MIDDLE + side * place, 1) for side in (-1, 1) for place in places]


def to_svg(drawn: Drawing) -> str:
    """The drawing as SVG in a page that has `STYLE`; page/intervals.js draws the same."""
    middle = HEIGHT / 2
    low, high = drawn.bar
    parts = []
    if drawn.band:
        left, right = drawn.band
        sides = f'x="{left:g}" y="2" width="{right - left:g}" height="{HEIGHT - 4}"'
        parts.append(f'<rect class="band" {sides}/>')
        parts += [_line("tick", x, HEIGHT - 5, x, HEIGHT - 1) for x in ticks()]
    parts.append(_line("zero", _MIDDLE, 0, _MIDDLE, HEIGHT))
    parts.append(_line("bar", low, middle, high, middle))
    for end, beyond, away in ((low, drawn.beyond[0], -1), (high, drawn.beyond[1], 1)):
        if beyond:
            tip, root = end + 5 * away, end - 2 * away
            parts.append(_shape("arrow", [(root, middle - 4), (tip, middle), (root, middle + 4)]))
        else:
            parts.append(_line("bar", end, middle - 5, end, middle + 5))
    if drawn.mark is not None:
        x = drawn.mark
        parts.append(_shape("mark", [(x - 4, 1), (x, 8), (x + 4, 1)]))
    if drawn.dot is not None:
        parts.append(f'<circle class="dot" cx="{drawn.dot:g}" cy="{middle:g}" r="2.7"/>')
    words = html.escape(drawn.words)
    return (
        f'<svg class="interval" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'role="img" aria-label="{words}"><title>{words}</title>{"".join(parts)}</svg>'
    )


def _line(name: str, *ends: float) -> str:
    x1, y1, x2, y2 = ends
    return f'<line class="{name}" x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}"/>'


def _shape(name: str, corners: list[tuple[float, float]]) -> str:
    points = " ".join(f"{x:g},{y:g}" for x, y in corners)
    return f'<polygon class="{name}" points="{points}"/>'


#: How pages style drawings, in the colour of their text.
STYLE = """
.interval { display: block; overflow: visible; }
.interval .band { fill: currentColor; fill-opacity: .13; stroke: currentColor; stroke-opacity: .45;
  stroke-width: 1; stroke-dasharray: 2 2; }
.interval .zero { stroke: currentColor; stroke-opacity: .7; stroke-width: 1; }
.interval .tick { stroke: currentColor; stroke-opacity: .45; stroke-width: 1; }
.interval .bar { stroke: currentColor; stroke-width: 2; }
.interval .arrow, .interval .dot { fill: currentColor; }
.interval .mark { fill: none; stroke: currentColor; stroke-width: 1.3; }
"""
#: What the parts of a drawing are, for readers.
KEY = (
    "The dot is the estimate, the median of the paired differences of seeds, and the bar its 95 % "
    "interval; an arrow goes on beyond the drawing, to infinity with fewer than six seeds. The "
    "vertical line is no difference, the dashed grey band what is too small to count, the open "
    "triangle the effect that the paper prints. To the right lies what is in favour of the claim. "
    "All drawings have one scale, in units of the smallest effect that counts: linear near zero, "
    "logarithmic further out, with ticks at 10 and 100 times the smallest effect. Without a band a "
    "published number is compared: the line is the printed number, the dot ours, and the bar the "
    "prediction interval of their difference, on a scale of its own."
)
