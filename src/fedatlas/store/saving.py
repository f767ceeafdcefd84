"""Save tables of comparisons for papers and other programs."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from fedatlas.errors import FedatlasError
from fedatlas.files import write_atomically, write_text
from fedatlas.latex import text
from fedatlas.schema.quantities import MEASUREMENTS

if TYPE_CHECKING:
    import pandas as pd

#: What a table's file may end in.
ENDINGS = (".tex", ".csv", ".parquet", ".json")


# What names of runs end in → a mark in its place, and what stands below the table.
_ORIGINS = {
    " (published)": r"\textsuperscript{p} published",
    " (foreign)": r"\textsuperscript{f} made elsewhere: not checked against data and code",
}


_ENDS = rf"({'|'.join(map(re.escape, _ORIGINS))})$"
_LONG_NAME, _NAME_WIDTH = 24, "9.5em"  # letters from which on names have several lines
_LETTERS_IN_COLUMN = 55


class Cell(NamedTuple):
    """A number, or a word in its place, with its interval.

    is_best: it is the best, or not told apart from it. alone: no other is.
    """

    number: str
    interval: str = ""
    is_best: bool = False
    alone: bool = False


class Tabular(NamedTuple):
    """A table for a paper. columns: heading → a cell for each row.

    told_apart: how the best is from others. notes: what stands below the table.
    """

    caption: str
    columns: Mapping[str, Sequence[str | Cell]]
    told_apart: str
    notes: Sequence[str] = ()


def save_table(
    path: Path | str, frame: "Callable[[], pd.DataFrame]", tables: Callable[[], Sequence[Tabular]]
) -> None:
    """Write a table by the ending of its file: numbers as they are, or LaTeX for a paper."""
    path = Path(path)
    if path.suffix not in ENDINGS:
        raise FedatlasError(f"{path}: must end in {', '.join(ENDINGS)}, which decide the format")
    check_folder_of(path)
    if path.suffix == ".tex":
        write_text(path, "\n".join(map(_latex, tables())))
    elif path.suffix == ".parquet":
        with write_atomically(path) as temporary:
            frame().to_parquet(temporary, index=False)
    elif path.suffix == ".csv":
        write_text(path, frame().to_csv(index=False))
    else:  # JSON has no number for what is never reached: null
        write_text(path, frame().to_json(orient="records", indent=1, force_ascii=False) + "\n")


def check_folder_of(path: Path) -> None:
    """FedatlasError if a folder in which a file would lie is a file."""
    for folder in path.parents:
        if folder.is_file():
            raise FedatlasError(f"{path}: {folder} is a file, not a folder: name another place")


def _latex(table: Tabular) -> str:
    """A table of booktabs and siunitx: numbers below each other by their points."""
    caption = re.sub(r"[a-z]\w+", _long_name, table.caption)
    names = next(iter(table.columns.values()))
    origins = [
        told for end, told in _ORIGINS.items() if any(str(one).endswith(end) for one in names)
    ]
    letters = [_letters(head, cells) for head, cells in table.columns.items()]
    first = (
        "l" if letters[0] <= _LONG_NAME else rf">{{\raggedright\arraybackslash}}p{{{_NAME_WIDTH}}}"
    )
    letters[0] = min(letters[0], _LONG_NAME)
    # Across both columns of a page; on a page of one it is as any.
    kind = "table*" if sum(letters) + len(letters) > _LETTERS_IN_COLUMN else "table"
    kinds, heads = "", list[str]()
    columns: list[list[str]] = []
    for head, cells in table.columns.items():
        numbers = [one.number for one in cells if isinstance(one, Cell)]
        intervals = any(isinstance(one, Cell) and one.interval for one in cells)
        kinds += (_kind(numbers) if columns else first) + r"@{\,}l" * intervals
        place = "r" if columns and not intervals else "l"
        heads.append(rf"\multicolumn{{{1 + intervals}}}{{{place}}}{{{text(head)}}}")
        columns.append([_cell(one, intervals) for one in cells])
    every = [one for cells in table.columns.values() for one in cells if isinstance(one, Cell)]
    alone = {one.alone for one in every if one.is_best}
    apart = rf"\textbf{{Bold}}: best, and told apart from all others {text(table.told_apart)}"
    tied = r"\textsuperscript{a} not told apart from the best"
    notes = [apart] * (True in alone) + [tied] * (False in alone)
    return "\n".join(
        [
            r"% \usepackage{booktabs, siunitx}",
            *(
                rf"\begin{{{kind}}}",
                r"\centering",
                rf"\caption{{{text(caption[:1].upper() + caption[1:])}}}",
            ),
            r"\footnotesize\setlength{\tabcolsep}{3pt}",
            r"\sisetup{mode = text, reset-text-series = false}",
            *(rf"\begin{{tabular}}{{{kinds}}}", r"\toprule", " & ".join(heads) + r" \\"),
            r"\midrule",
            *(" & ".join(row) + r" \\" for row in zip(*columns, strict=True)),
            *(r"\bottomrule", r"\end{tabular}"),
            *(rf"\par {note}" for note in [*notes, *origins, *map(text, table.notes)]),
            *(rf"\end{{{kind}}}", ""),
        ]
    )


def _long_name(name: re.Match[str]) -> str:
    """A measurement as figures call it; any other word as it is."""
    return MEASUREMENTS[name[0]].long_name if name[0] in MEASUREMENTS else name[0]


def _letters(head: str, cells: Sequence[str | Cell]) -> int:
    """How wide a column is."""
    shown = (
        f"{one.number} {one.interval}" if isinstance(one, Cell) else re.sub(_ENDS, "", one)
        for one in cells
    )
    return max(len(head), *map(len, shown))


def _kind(numbers: Sequence[str]) -> str:
    """A column of siunitx as wide as its numbers; of texts one that ends at the right."""
    parts = [number.partition(".") for number in numbers if _is_number(number)]
    whole, decimals = (max((len(part[end]) for part in parts), default=0) for end in (0, 2))
    return f"S[table-format={whole}.{decimals}]" if parts else "r"


def _is_number(text: str) -> bool:
    return text[:1].isdigit()


def _cell(one: str | Cell, intervals: bool) -> str:
    if isinstance(one, str):
        name, end, *_ = [*re.split(_ENDS, one), ""]
        return text(name) + _ORIGINS.get(end, "").partition(" ")[0]
    number = one.number if _is_number(one.number) else f"{{{text(one.number)}}}"
    bold = r"\bfseries " if one.is_best and one.alone else ""
    tied = r"\textsuperscript{a}" if one.is_best and not one.alone else ""
    if intervals:
        return f"{bold}{number} & {text(one.interval)}{tied}"
    return bold + number + (f"{{{tied}}}" if tied else "")
