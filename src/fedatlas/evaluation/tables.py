"""Tables of an experiment's results and of verdicts, as CSV and as a page to read."""

import csv
import html
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path

import numpy as np
import xarray as xr

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.judge import Verdict
from fedatlas.evaluation.levels import cost_axis, diverged
from fedatlas.evaluation.selection import Choice, Traces
from fedatlas.traces import MEASUREMENTS

_VERDICT_COLUMNS = [field.name for field in fields(Verdict)]


def results_table(traces: Traces, chosen: Mapping[str, Choice]) -> list[dict[str, object]]:
    """One row per grid point: where its seeds ended (median, lowest, highest) and what it cost."""
    return [
        _result_row(run, point, trace, chosen[run].point == point)
        for run, points in traces.items()
        for point, trace in points.items()
    ]


def _result_row(run: str, point: str, trace: xr.Dataset, selected: bool) -> dict[str, object]:
    healthy = ~diverged(trace)
    row: dict[str, object] = {
        "run": run,
        "point": point,
        "algorithm": trace.attrs["algorithm"],
        "effective_step_size": float(trace.attrs["effective_step_size"]),
        "selected": selected,
        "seeds": len(healthy),
        "diverged_seeds": int((~healthy).sum()),
    }
    for name in MEASUREMENTS:
        final = trace[name].transpose("seed", "record").to_numpy()[healthy, -1]
        for label, statistic in (("median", np.median), ("lowest", np.min), ("highest", np.max)):
            row[f"{name}_{label}"] = float(statistic(final)) if len(final) else float("nan")
    for cost in ("round", "epoch", "bytes", "full_participations", "wall_time"):
        spent = cost_axis(trace, cost)[healthy, -1]
        row[f"{cost}_median"] = float(np.median(spent)) if len(spent) else float("nan")
    return row


def to_csv(rows: Sequence[Mapping[str, object]], columns: Sequence[str] | None = None) -> str:
    """Rows as CSV text with a header; `columns` gives the header where there may be no row."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, columns or list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()


def verdicts_to_csv(verdicts: Sequence[Verdict]) -> str:
    """Verdicts as claims.csv."""
    return to_csv([asdict(verdict) for verdict in verdicts], _VERDICT_COLUMNS)


def read_verdicts(path: Path) -> list[Verdict]:
    """Verdicts of one claims.csv; a file with other columns is refused by name."""
    with path.open(encoding="utf-8", newline="") as stream:
        reader = csv.DictReader(stream)
        if reader.fieldnames != _VERDICT_COLUMNS:
            raise FedatlasError(
                f"{path}: expected the columns {', '.join(_VERDICT_COLUMNS)}. Delete it and run "
                "again."
            )
        verdicts = []
        for row in reader:
            # A row of another length has None for a key or for a value.
            if None in row or None in row.values():
                raise FedatlasError(
                    f"{path}: the row that ends in line {reader.line_num} is not whole. Delete the "
                    "file and run again."
                )
            verdicts.append(Verdict(**row))
        return verdicts


def verdict_summary(verdicts: Sequence[Verdict]) -> str:
    """How many claims came out how, in words."""
    counts = Counter(verdict.verdict for verdict in verdicts)
    parts = [f"{counts[name]} {name}" for name in ("reproduced", "not reproduced", "inconclusive")]
    return f"{len(verdicts)} judged: " + ", ".join(parts)


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
Numbers are geometric means over the seeds that have one: a seed that diverged, or never reached a
target, leaves its side of the interval open.</p>
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
