"""docs/data-card.md: what tables of traces hold, in which units, and whose data are behind them."""

from collections.abc import Iterator, Mapping

from fedatlas.atlas.tables import KEYS, SUFFIX
from fedatlas.data.datasets import Dataset
from fedatlas.markdown import code, link, paragraph, table, text
from fedatlas.schema.cost_names import COSTS
from fedatlas.schema.measurements import MEASUREMENTS

_OPENING = f"""
`fedatlas export` and `fedatlas publish` write traces as Parquet tables (`*{SUFFIX}`), a row for
each run, seed and record. This page lists their columns, and the data sets that runs were trained
on. It is generated: `fedatlas data-card --output docs/data-card.md` writes it anew.
"""
_WHAT = """
A trace is what one run of one method left: what it had spent and what was measured, for every seed,
at every record of its schedule. No row of a data set is in it, and no model. Costs add up over a
run. A column is empty (NULL) where a run does not count or measure it; a seed that diverged has NaN
from then on and the status `diverged`. Times named `wall_time` and `elapsed_time` were measured on
one machine; all else, given the versions in the file, is the same on every run on a CPU.
"""
_LIMITS = """
Files made by `publish` without `--whole` are lossy, and say so in their metadata under `thinned`:
at most so many records of each trace, in six significant digits. Digests tell which code and which
data made a trace; `values_digest` is that of the values as measured, before records were thinned.
Seeds marked `tuning` chose a grid point: leave them out when you judge.
"""
_LICENCES = """
Licences are those of the data that runs were trained on; each table repeats those of its own runs
in its metadata. Traces themselves are published under the licence of this repository.
"""


def data_card(datasets: Mapping[str, Dataset]) -> str:
    """The page as Markdown; datasets: the catalogue's, by name."""
    return "\n\n".join(_blocks(datasets)) + "\n"


def _blocks(datasets: Mapping[str, Dataset]) -> Iterator[str]:
    yield "# Data card"
    yield paragraph(_OPENING)
    yield "## What a row is"
    yield paragraph(_WHAT)
    yield paragraph(_LIMITS)
    yield "## Columns that name a row"
    yield table(
        ("column", "type", "is"),
        [[code(name), one.dtype, text(one.long_name)] for name, one in KEYS.items()],
    )
    yield "## Costs"
    yield table(
        ("column", "unit", "is"),
        [[code(name), text(one.units), text(one.long_name)] for name, one in COSTS.items()],
    )
    yield "## Measurements"
    yield table(
        ("column", "unit", "best value", "is"),
        [
            [
                code(name),
                text(one.units),
                "–" if one.best is None else str(one.best),
                text(one.long_name),
            ]
            for name, one in MEASUREMENTS.items()
        ],
    )
    yield "## Data sets and their licences"
    yield paragraph(_LICENCES)
    yield table(
        ("data set", "title", "task", "licence"),
        [
            [code(name), link(text(one.title), one.homepage), one.task, text(one.licence)]
            for name, one in datasets.items()
        ],
    )
