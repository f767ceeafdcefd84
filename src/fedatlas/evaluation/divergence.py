"""Which runs diverged at their chosen point, of the tables that experiments already have."""

from collections.abc import Iterable
from pathlib import Path

from fedatlas.evaluation.comma_separated import read_rows

_NAMED = 10  # runs of one line
_COLUMNS = {"run", "selected", "seeds", "diverged_seeds"}


def format_divergence(tables: Iterable[Path]) -> str:
    """Runs with seeds that diverged, in a line; empty if there are none.

    tables: table.csv of experiments, each in the experiment's folder.
    """
    found = [run for table in tables for run in _diverged(table)]
    more = f"; and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    return f"diverged: {'; '.join(found[:_NAMED])}{more}" if found else ""


def _diverged(table: Path) -> list[str]:
    rows = read_rows(table)
    # A table of an older version says nothing of this; it is written anew with the experiment.
    known = [row for row in rows if row.keys() >= _COLUMNS and row["selected"] == "True"]
    return [
        f"{table.parent.name}/{row['run']}, {row['diverged_seeds']} of {row['seeds']} seeds"
        for row in known
        if row["diverged_seeds"] != "0"
    ]
