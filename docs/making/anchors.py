"""An address for every finding: list items that begin in bold get an id and a link to it."""

from typing import Any

from docutils import nodes
from sphinx.transforms import SphinxTransform


class Anchors(SphinxTransform):
    """Gives list items that begin in bold an id, made of what is bold."""

    default_priority = 880  # after pages are parsed, before references are resolved

    def apply(self, **_: Any) -> None:
        for item in self.document.findall(nodes.list_item):
            paragraph = item.next_node(nodes.paragraph)
            if paragraph is None or item.children[0] is not paragraph:
                continue
            first = next((part for part in paragraph.children if part.astext()), None)
            if not isinstance(first, nodes.strong):
                continue
            wanted = nodes.make_id(" ".join(first.astext().split()[:8])) or "finding"
            name, number = wanted, 1
            while name in self.document.ids:
                number += 1
                name = f"{wanted}-{number}"
            self.document.ids[name] = item
            item["ids"].append(name)
            link = nodes.reference("", "#", refuri=f"#{name}", classes=["headerlink"])
            paragraph += link


def setup(app: Any) -> dict[str, bool]:
    """For Sphinx."""
    app.add_transform(Anchors)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
