"""The page of verdicts."""

import html
from collections.abc import Sequence

from fedatlas.evaluation.verdicts import Verdict, verdict_summary

_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Claims</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
body {{ font: 15px/1.45 system-ui, sans-serif; margin: 2rem; color: #1a1a1a; background: #fff; }}
table {{ border-collapse: collapse; width: 100%; }}
th, td {{ text-align: left; vertical-align: top; padding: .45rem .6rem; }}
tr {{ border-bottom: 1px solid #ddd; }}
th {{ border-bottom: 2px solid #555; position: sticky; top: 0; background: #fff; }}
td:nth-child(1) {{ font-family: ui-monospace, monospace; font-size: .85em; }}
td:nth-child(5) {{ font-size: .9em; color: #444; }}
.verdict {{ white-space: nowrap; font-weight: 600; }}
.reproduced {{ color: #00694d; }}
.not-reproduced {{ color: #a83200; }}
.inconclusive {{ color: #5f5f5f; }}
</style></head><body>
<h1>Claims</h1><p>{summary}. A verdict compares the 95&nbsp;% interval over seeds with the claimed
region: inside it is <i>reproduced</i>, outside it <i>not reproduced</i>, across its border
<i>inconclusive</i>. Where the claim is about a selected hyper-parameter, all seeds must agree.
Numbers are means over the seeds that have one, geometric where ratios are compared: a seed that
diverged, whose objective stands above its start, or that never reached a target, leaves its side of
the interval open. No correction is made for judging many claims.</p>
<table><thead><tr><th>Claim</th><th>Source</th><th>Statement</th><th>Verdict</th><th>Evidence</th></tr>
</thead><tbody>
{rows}
</tbody></table></body></html>
"""


def verdicts_to_html(verdicts: Sequence[Verdict]) -> str:
    """Verdicts as a self-contained page."""
    rows = []
    for verdict in verdicts:
        kind = html.escape(verdict.verdict.replace(" ", "-"))
        cells = [
            f"<td>{html.escape(verdict.claim)}</td>",
            f"<td>{html.escape(verdict.source)}</td>",
            f"<td>{html.escape(verdict.statement)}</td>",
            f'<td class="verdict {kind}">{html.escape(verdict.verdict)}</td>',
            f"<td>{html.escape(verdict.evidence)}</td>",
        ]
        rows.append(f"<tr>{''.join(cells)}</tr>")
    return _PAGE.format(summary=html.escape(verdict_summary(verdicts)), rows="\n".join(rows))
