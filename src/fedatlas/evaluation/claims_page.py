"""The page of verdicts."""

import html
from collections.abc import Sequence

from fedatlas.evaluation.interval_drawing import KEY, STYLE, drawing, to_svg
from fedatlas.evaluation.tallies import CORRECTION, families, family_name, tally, tally_table
from fedatlas.evaluation.verdict_words import MARKS, capital, in_short, would_decide
from fedatlas.evaluation.verdicts import Verdict, cases_of, sentences, verdict_summary
from fedatlas.schema.claims import OUTCOMES

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
.reproduced, .compatible {{ color: #00694d; }}
.contradicted, .incompatible {{ color: #a83200; }}
.smaller-than-claimed, .no-difference {{ color: #6b4a00; }}
.undecided, .not-testable {{ color: #4f4f4f; }}
{style}
</style></head><body>
<h1>Claims of one selection</h1>
<p>Of {selection}: {summary}.
What a sentence claims is compared seed by seed: the interval of the median difference is held
against zero and against the smallest effect that counts, which is declared before any run. A lost
seed counts as infinitely bad. Of a sentence with several cases the worst case counts, unless
it speaks of most of them.</p>
<dl>
{outcomes}
</dl>
<p><i>Fragile</i> is what another target or another budget would turn. {key}</p>
<h2>How many came out how</h2>
<p>{correction}</p>
<div class="frame"><table class="tally"><thead><tr><th scope="col">Paper</th>{heads}</tr></thead>
<tbody>
{tallies}
</tbody></table></div>
{sections}
</body></html>
"""
_COLUMNS = "<colgroup><col><col><col><col></colgroup>"
_HEAD = "".join(
    f'<th scope="col">{name}</th>' for name in ("Sentence", "Outcome", "Effect", "Evidence")
)


def verdicts_to_html(verdicts: Sequence[Verdict]) -> str:
    """Verdicts as a self-contained page; cases, if any, can be folded out below their sentence."""
    tallies = {family_name(*family): tally(own) for family, own in families(verdicts).items()}
    heads, rows = tally_table(tallies)
    held = dict.fromkeys(verdict.claim.partition("/")[0] for verdict in verdicts)
    return _PAGE.format(
        style=STYLE,
        selection=html.escape(", ".join(held) or "no experiment"),
        summary=html.escape(capital(verdict_summary(verdicts))),
        outcomes="\n".join(
            f'<dt class="{_class(kind)}">{MARKS[kind]} {kind}</dt><dd>{meaning}</dd>'
            for kind, meaning in OUTCOMES.items()
        ),
        key=html.escape(KEY),
        correction=html.escape(CORRECTION),
        heads="".join(f'<th scope="col">{name}</th>' for name in heads),
        tallies="\n".join(
            f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in rows
        ),
        sections="\n".join(
            f"<h2>{html.escape(family_name(*family))}</h2>\n{_table(own)}"
            for family, own in families(verdicts).items()
        ),
    )


def _table(verdicts: Sequence[Verdict]) -> str:
    cases = cases_of(verdicts)
    rows = [_rows(sentence, cases.get(sentence.claim, [])) for sentence in sentences(verdicts)]
    return (
        f'<div class="frame"><table class="claims">{_COLUMNS}<thead><tr>{_HEAD}</tr></thead>'
        f"<tbody>\n{chr(10).join(rows)}\n</tbody></table></div>"
    )


def _rows(sentence: Verdict, cases: Sequence[Verdict]) -> str:
    name = f"{html.escape(sentence.claim)} · {html.escape(sentence.source)}"
    about = f'{html.escape(sentence.statement)}<span class="name">{name}</span>'
    if not cases:
        return f"<tr>{_cells(about, sentence)}</tr>"
    row = f'<tr class="has-cases">{_cells(about, sentence)}</tr>'
    rule = "more than half decide" if sentence.cases == "most" else "the worst counts"
    told = f"{len(cases)} cases, of which {rule}" if len(cases) > 1 else "1 case"
    inner = "\n".join(f"<tr>{_cells(html.escape(case.case), case)}</tr>" for case in cases)
    return (
        f'{row}\n<tr class="cases"><td colspan="4"><details><summary>{told}</summary>\n'
        f'<table class="claims">{_COLUMNS}<tbody>\n{inner}\n</tbody></table></details></td></tr>'
    )


def _cells(about: str, verdict: Verdict) -> str:
    notes = [would_decide(verdict), f"fragile: {verdict.fragile}" if verdict.fragile else ""]
    told = "".join(f"<span>{html.escape(note)}</span>" for note in notes if note)
    effect = ""
    if verdict.effect:
        drawn = to_svg(drawing(verdict.effect))
        effect = f"{drawn}<span>{html.escape(in_short(verdict.effect))}</span>"
    outcome = f"{MARKS[verdict.outcome]} {html.escape(verdict.outcome)}"
    return (
        f"<td>{about}</td>"
        f'<td class="outcome {_class(verdict.outcome)}">{outcome}{told}</td>'
        f'<td class="effect">{effect}</td>'
        f'<td class="evidence">{html.escape(verdict.evidence)}</td>'
    )


def _class(outcome: str) -> str:
    return outcome.replace(" ", "-")
