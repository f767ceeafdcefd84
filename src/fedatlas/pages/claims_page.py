"""The page of verdicts, with a small drawing of each effect.

A drawing shows the interval beside zero and the smallest effect that counts. All drawings of
comparisons share one scale, so that a reader can compare them down a column. Its unit is the
smallest effect that counts; it is linear near zero and logarithmic further out (asinh). The right
side is in favour of the claim. Published numbers have no smallest effect, so each takes its unit
from the prediction interval. No part depends on colour: each has a shape of its own.
"""

import html
import logging
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path

from fedatlas.evaluation.evidence import MARKS, capital, in_full, in_short
from fedatlas.evaluation.horizon import from_text, in_words
from fedatlas.evaluation.sentences import joined
from fedatlas.evaluation.verdicts import (
    CORRECTION,
    Verdict,
    cases_of,
    families,
    family_name,
    read_verdicts,
    tally,
    tally_table,
    verdict_summary,
    verdicts_to_csv,
    whole_claims,
    would_decide,
)
from fedatlas.extensions import projects
from fedatlas.files import write_text
from fedatlas.pages.claim_rows import Titles, severity, titled
from fedatlas.plan.build import build_plan
from fedatlas.plan.places import shipped_configuration
from fedatlas.schema.claims import OUTCOMES, Effect

log = logging.getLogger(__name__)

WIDTH, HEIGHT = 220, 24
_MIDDLE, _REACH = WIDTH / 2, WIDTH / 2 - 6
#: The edge of a drawing, in multiples of the smallest effect; an arrow shows what lies beyond.
_FURTHEST = 300.0
#: Where ticks stand, in multiples of the smallest effect.
TICKS = (10, 100)


def drawing(effect: Effect) -> dict[str, str]:
    """The drawing of an effect: SVG paths by the class of each part, the lowest layer first.

    band: ± the smallest effect, with ticks; published numbers have none. bar: the interval, with
    an arrow where it continues. mark: the paper's effect. dot: the estimate.
    """
    low = -math.inf if math.isnan(effect.low) else effect.low
    high = math.inf if math.isnan(effect.high) else effect.high
    unit = effect.smallest or _own_unit(low, effect.estimate, high)

    def place(value: float) -> float:
        share = math.asinh(value / unit) / math.asinh(_FURTHEST)
        return round(_MIDDLE + _REACH * min(1.0, max(-1.0, share)), 1)

    parts = {}
    if effect.smallest:
        left, right = place(-unit), place(unit)
        parts["band"] = f"M{left:g} 2H{right:g}V{HEIGHT - 2}H{left:g}Z"
        parts["tick"] = "".join(f"M{x:g} {HEIGHT - 5}v4" for x in ticks())
    parts["zero"] = f"M{_MIDDLE:g} 0V{HEIGHT}"
    bar, arrow, middle = f"M{place(low):g} {HEIGHT // 2}H{place(high):g}", "", HEIGHT // 2
    for end, away in ((low, -1), (high, 1)):
        if abs(end) > _FURTHEST * unit and end * away > 0:
            root = place(end) - 2 * away
            arrow += f"M{root:g} {middle - 4}l{7 * away} 4l{-7 * away} 4Z"
        else:
            bar += f"M{place(end):g} {middle - 5}v10"
    parts["bar"] = bar
    if arrow:
        parts["arrow"] = arrow
    if effect.published is not None and not math.isnan(effect.published):
        parts["mark"] = f"M{place(effect.published) - 4:g} 1h8l-4 7Z"
    if not math.isnan(effect.estimate):
        circle = "m-2.7 0a2.7 2.7 0 1 0 5.4 0a2.7 2.7 0 1 0-5.4 0Z"
        parts["dot"] = f"M{place(effect.estimate):g} {middle}{circle}"
    return parts


def _own_unit(low: float, estimate: float, high: float) -> float:
    """The unit for a published number: a tenth of half the interval, or else of the estimate."""
    for size in ((high - low) / 2, abs(estimate)):
        if math.isfinite(size) and size > 0:
            return size / 10
    return 1.0


def ticks() -> list[float]:
    """The horizontal places of `TICKS`, on both sides of zero."""
    places = [_REACH * math.asinh(often) / math.asinh(_FURTHEST) for often in TICKS]
    return [round(_MIDDLE + side * place, 1) for side in (-1, 1) for place in places]


def to_svg(effect: Effect) -> str:
    """The drawing as SVG for a page with `STYLE`; page/panels.js draws the same parts."""
    paths = (f'<path class="{name}" d="{path}"/>' for name, path in drawing(effect).items())
    return _svg("interval", HEIGHT, in_full(effect), "".join(paths))


def scale_svg() -> str:
    """The scale of the drawings as SVG, with a number at each tick."""
    names = [f"{sign}{often}" for sign in ("−", "") for often in TICKS]
    numbers = [*zip(ticks(), names, strict=True), (_MIDDLE, "0")]
    path = "".join(f"M{x:g} 14v8" for x, _ in numbers)
    texts = [f'<text x="{x:g}" y="11" text-anchor="middle">{name}</text>' for x, name in numbers]
    texts += ['<text x="0" y="34">← against the claim</text>']
    texts += [f'<text x="{WIDTH}" y="34" text-anchor="end">for it →</text>']
    words = (
        "Scale of the drawings, in multiples of the smallest effect that counts, with ticks at 10 "
        "and 100 times to either side of no difference. Left is against the claim, right is in "
        "favour of it"
    )
    return _svg("scale", 36, words, f'<path d="M0 18H{WIDTH}{path}"/>{"".join(texts)}')


def strip_svg(horizon: str) -> str:
    """The strip of outcomes along budgets or targets as SVG, with its words; may be empty.

    Cells begin at the smallest budget or the easiest target. Each has its outcome's mark and
    colour. A bar below marks the declared budget or target.
    """
    of, parts = from_text(horizon)
    cells = [(outcome, scale) for outcome, scales in parts for scale in scales]
    if not cells:
        return ""
    wide, drawn = WIDTH / len(cells), ""
    for place, (outcome, scale) in enumerate(cells):
        x = round(place * wide, 1)
        drawn += (
            f'<g class="{_class(outcome)}"><title>{scale} times the {of}: {outcome}</title>'
            f'<rect x="{x:g}" width="{wide - 1:g}" height="15"/>'
            f'<text x="{x + wide / 2:g}" y="12" text-anchor="middle">{MARKS[outcome]}</text></g>'
        )
        if scale == "1":
            drawn += f'<path d="M{x:g} 17.5h{wide - 1:g}"/>'
    words = in_words(horizon)
    return _svg("strip", 19, f"Along the {of}: {words}", drawn) + (
        f"<span>{html.escape(words)}</span>" if len(parts) > 1 else ""
    )


def _svg(name: str, height: int, words: str, content: str) -> str:
    words = html.escape(words)
    return (
        f'<svg class="{name}" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{words}">'
        f"<title>{words}</title>{content}</svg>"
    )


#: The style of drawings, in the colour of the page's text.
STYLE = """
.interval { display: block; width: 220px; height: 24px; overflow: visible; }
.interval path { fill: none; }
.interval .band { fill: currentColor; fill-opacity: .13; stroke: currentColor; stroke-opacity: .45;
  stroke-width: 1; stroke-dasharray: 2 2; }
.interval .zero { stroke: currentColor; stroke-opacity: .7; stroke-width: 1; }
.interval .tick { stroke: currentColor; stroke-opacity: .45; stroke-width: 1; }
.interval .bar { stroke: currentColor; stroke-width: 2; }
.interval .arrow, .interval .dot { fill: currentColor; }
.interval .mark { stroke: currentColor; stroke-width: 1.3; }
.strip { display: block; width: 220px; height: 19px; margin-top: .3rem; }
.strip rect { fill: currentColor; fill-opacity: .16; }
.strip text { fill: currentColor; font-size: 11px; }
.strip path { stroke: currentColor; stroke-width: 2; fill: none; }
"""
#: The parts of a drawing, explained for readers.
KEY = (
    "The dot is the estimate: the median of the paired differences of seeds. The bar is its 95 % "
    "interval; an arrow means that the interval continues beyond the drawing, and with fewer than "
    "six seeds to infinity. The vertical line is no difference, the dashed grey band contains "
    "effects too small to count, and the open triangle is the effect that the paper prints. The "
    "right side is in favour of the claim. "
    "All drawings share one scale, in units of the smallest effect that counts: linear near zero, "
    "logarithmic further out, with ticks at 10 and 100 times the smallest effect. A drawing "
    "without a band compares a published number: the line is the printed number, the dot is our "
    "number, and the bar is the prediction interval of their difference, on a scale of its own."
)
#: The strips, explained for readers.
STRIP_KEY = (
    "The strip below a drawing shows how the claim comes out at other budgets or targets. Budgets "
    "are ten shares of the declared one, from 4 % to all, each 1.4 times the one before. Targets "
    "go in ten steps from 243 times the declared one to an eightieth of it, each a third of the "
    "one before. The bar marks what the claim declares. A verdict is fragile if half the budget "
    "or more, or a target within a factor of three, gives another outcome."
)


_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Claims</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
body {{ font: 15px/1.45 system-ui, sans-serif; margin: 2rem; color: #1a1a1a; background: #fff; }}
h2 {{ margin: 2.2rem 0 .5rem; font-size: 1.2rem; }}
p, dl {{ max-width: 62rem; }}
dl {{ display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; }}
dt {{ font-weight: 600; }}
dd {{ margin: 0; }}
table {{ border-collapse: collapse; width: 100%; }}
th, td {{ text-align: left; vertical-align: top; padding: .45rem .6rem; }}
tr {{ border-bottom: 1px solid #ddd; }}
th {{ border-bottom: 2px solid #555; }}
.tally {{ width: auto; font-size: .87em; }}
.tally td, .tally th {{ padding: .3rem .4rem; }}
.tally td:first-child {{ white-space: nowrap; }}
.tally td + td, .tally th + th {{ text-align: right; }}
.claims {{ table-layout: fixed; min-width: 60rem; }}
.claims col:nth-child(1) {{ width: 27%; }}
.claims col:nth-child(2) {{ width: 10.5rem; }}
.claims col:nth-child(3) {{ width: 15.2rem; }}
.frame {{ overflow-x: auto; }}
.name {{ display: block; font-family: ui-monospace, monospace; font-size: .8em; color: #555;
  overflow-wrap: anywhere; }}
.outcome {{ font-weight: 600; }}
.outcome span {{ font-weight: 400; font-size: .85em; color: #444; display: block; }}
.effect span, .evidence {{ font-size: .9em; color: #444; overflow-wrap: anywhere; }}
.has-cases {{ border-bottom: 0; }}
.cases > td {{ padding: 0 0 .4rem; }}
.cases summary {{ cursor: pointer; padding: .2rem .6rem; color: #444; }}
.cases .claims {{ background: #f6f6f6; }}
.cases table td:first-child {{ padding-left: 1.8rem; }}
.cases table td.reading {{ padding-left: .6rem; }}
.reproduced, .compatible {{ color: #00694d; }}
.contradicted, .incompatible {{ color: #a83200; }}
.smaller-than-claimed, .no-difference {{ color: #6b4a00; }}
.undecided, .not-testable, .not-covered {{ color: #4f4f4f; }}
{style}
</style></head><body>
<h1>Claims of one selection</h1>
<p>{summary}. Experiments: {selection}. <a href="#reading">How to read this page</a>.</p>
{sections}
<h2>Counts of outcomes</h2>
<p>{correction}</p>
<div class="frame"><table class="tally"><thead><tr><th scope="col">Paper</th>{heads}</tr></thead>
<tbody>
{tallies}
</tbody></table></div>
<h2 id="reading">How to read this page</h2>
<p>A comparison is made seed by seed. The interval of the median difference is compared with zero
and with the smallest effect that counts, which is declared before any run. A lost seed, such as
one that diverged, counts as infinitely bad. A claim of a paper stands here as printed, once for
each setting in which it was judged; the tests that we made of it stand below. The worst case of a
claim counts, and a contradicted case is corrected for the number of cases. A claim about most of
its cases needs more than half.</p>
<dl>
{outcomes}
</dl>
<p>A <i>fragile</i> verdict would change with another target or another budget. {key}</p>
<p>{strip_key}</p>
</body></html>
"""
_RULES = {
    "all": "the worst counts",
    "most": "more than half decide",
    "any": "the best counts",
}
_COLUMNS = "<colgroup><col><col><col><col></colgroup>"
_HEAD = "".join(
    f'<th scope="col">{name}</th>' for name in ("Claim", "Outcome", "Effect", "Evidence")
)


def collect_claims(claims: list[Path], csv: Path, html: Path) -> None:
    """Join experiments' verdicts into one table and one page."""
    verdicts = [verdict for file in claims for verdict in read_verdicts(file)]
    write_text(csv, verdicts_to_csv(verdicts))
    names = [file.parent.name for file in claims]
    plan = build_plan(shipped_configuration(), *projects(), names=names)
    titles = {name: plan.run_titles(name) for name in names if name in plan.experiments}
    write_text(html, verdicts_to_html(verdicts, titles))
    log.info("%s", verdict_summary(joined(verdicts)))


def verdicts_to_html(verdicts: Sequence[Verdict], titles: Titles | None = None) -> str:
    """Verdicts as a self-contained page; the cases of a claim unfold below it."""
    verdicts = titled(verdicts, titles or {})
    counted = families(joined(verdicts))
    tallies = {family_name(*family): tally(own) for family, own in counted.items()}
    heads, rows = tally_table(tallies)
    held = dict.fromkeys(verdict.claim.partition("/")[0] for verdict in verdicts)
    return _PAGE.format(
        style=STYLE,
        selection=html.escape(", ".join(held) or "no experiment"),
        summary=html.escape(capital(verdict_summary(joined(verdicts)))),
        outcomes=outcomes_html(),
        key=html.escape(KEY),
        strip_key=html.escape(STRIP_KEY),
        correction=html.escape(CORRECTION),
        heads="".join(f'<th scope="col">{name}</th>' for name in heads),
        tallies="\n".join(
            f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in rows
        ),
        sections="\n".join(
            f"<h2>{html.escape(family_name(*family))}</h2>\n{_table(own, verdicts)}"
            for family, own in counted.items()
        ),
    )


def outcomes_html() -> str:
    """The meanings of outcomes, as entries of an HTML description list."""
    return "\n".join(
        f'<dt class="{_class(kind)}">{MARKS[kind]} {kind}</dt><dd>{html.escape(meaning)}</dd>'
        for kind, meaning in OUTCOMES.items()
    )


def _table(counted: Sequence[Verdict], verdicts: Sequence[Verdict]) -> str:
    """counted: verdicts for the rows, and their cases. verdicts: those of the single tests."""
    cases, claims = cases_of(counted), {each.claim: each for each in whole_claims(verdicts)}
    ordered = sorted(whole_claims(counted), key=severity)
    rows = [_rows(whole, cases.get(whole.claim, []), claims) for whole in ordered]
    return (
        f'<div class="frame"><table class="claims">{_COLUMNS}<thead><tr>{_HEAD}</tr></thead>'
        f"<tbody>\n{chr(10).join(rows)}\n</tbody></table></div>"
    )


def _rows(whole: Verdict, cases: Sequence[Verdict], claims: Mapping[str, Verdict]) -> str:
    printed = whole.claim not in claims
    name = f"{html.escape(whole.claim)} · {html.escape(whole.source)}"
    said = html.escape(f"“{whole.statement}”" if printed else whole.statement)
    about = f'{said}<span class="name">{name}</span>'
    if not cases:
        return f"<tr>{_cells(about, whole)}</tr>"
    row = f'<tr class="has-cases">{_cells(about, whole)}</tr>'
    count = f"{len(cases)} cases, of which {_RULES[whole.cases]}" if len(cases) > 1 else "1 case"
    below: Iterable[tuple[str, Verdict | None]] = (
        _readings(cases, claims) if printed else ((html.escape(case.case), case) for case in cases)
    )
    inner = "\n".join(
        f"<tr>{_cells(about, case)}</tr>"
        if case
        else f'<tr><td class="reading" colspan="4">{about}</td></tr>'
        for about, case in below
    )
    return (
        f'{row}\n<tr class="cases"><td colspan="4"><details><summary>{count}</summary>\n'
        f'<table class="claims">{_COLUMNS}<tbody>\n{inner}\n</tbody></table></details></td></tr>'
    )


def _readings(
    cases: Sequence[Verdict], claims: Mapping[str, Verdict]
) -> Iterator[tuple[str, Verdict | None]]:
    """Our tests of a paper's claim, as HTML: a test with its only case, or above its cases."""
    for name, own in groupby(cases, lambda case: case.case.partition(": ")[0]):
        claim, found = claims[name], list(own)
        about = f"{html.escape(name)} · {html.escape(claim.source)}"
        about = f'Our test: {html.escape(claim.statement)}<span class="name">{about}</span>'
        if len(found) == 1:
            yield about, found[0]
            continue
        yield about, None
        for case in found:
            yield html.escape(case.case.removeprefix(f"{name}: ")), case


def _cells(about: str, verdict: Verdict) -> str:
    notes = [
        would_decide(verdict),
        f"fragile: {verdict.fragile}" if verdict.fragile else "",
        f"by configurations tried: {verdict.tries}" if verdict.tries else "",
    ]
    details = "".join(f"<span>{html.escape(note)}</span>" for note in notes if note)
    effect = ""
    if verdict.effect:
        effect = f"{to_svg(verdict.effect)}<span>{html.escape(in_short(verdict.effect))}</span>"
    effect += strip_svg(verdict.horizon)
    outcome = f"{MARKS[verdict.outcome]} {html.escape(verdict.outcome)}"
    return (
        f"<td>{about}</td>"
        f'<td class="outcome {_class(verdict.outcome)}">{outcome}{details}</td>'
        f'<td class="effect">{effect}</td>'
        f'<td class="evidence">{html.escape(verdict.evidence)}</td>'
    )


def _class(outcome: str) -> str:
    return outcome.replace(" ", "-")
