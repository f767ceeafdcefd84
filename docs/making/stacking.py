"""Wide tables of words, whose rows a phone shows as lists: each cell names its column."""

from typing import Any

from docutils import nodes
from sphinx.transforms import SphinxTransform

# With fewer columns, or with numbers alone, a table fits a phone as it is.
_COLUMNS, _LETTERS = 4, 40


class Stacking(SphinxTransform):
    """Gives wide tables the class `stacks`, and their cells the names of their columns.

    The style sheet shows those names on phones only.
    """

    default_priority = 880  # after pages are parsed, before references are resolved

    def apply(self, **_: Any) -> None:
        for table in self.document.findall(nodes.table):
            head, body = table.next_node(nodes.thead), table.next_node(nodes.tbody)
            if head is None or body is None:
                continue
            columns = [cell.astext() for cell in head.children[0].children]
            rows = [row.children for row in body.children]
            longest = max((len(cell.astext()) for row in rows for cell in row), default=0)
            if len(columns) < _COLUMNS or longest <= _LETTERS:
                continue
            table["classes"].append("stacks")
            for row in rows:
                for column, cell in list(zip(columns, row, strict=True))[1:]:
                    if isinstance(first := cell.next_node(nodes.paragraph), nodes.paragraph):
                        first.insert(0, nodes.inline("", f"{column}: ", classes=["column"]))


def setup(app: Any) -> dict[str, bool]:
    """For Sphinx."""
    app.add_transform(Stacking)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
