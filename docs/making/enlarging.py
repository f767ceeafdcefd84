"""Pictures can be enlarged: each links to its file."""

from typing import Any

from docutils import nodes
from sphinx.transforms import SphinxTransform


class Enlarging(SphinxTransform):
    """States the width of pictures, as Sphinx links those of a declared width to their files."""

    default_priority = 880  # after pages are parsed

    def apply(self, **_: Any) -> None:
        for image in self.document.findall(nodes.image):
            thumbnail = image["uri"].endswith("_thumb.png")  # the gallery makes links of its own
            if not thumbnail and not isinstance(image.parent, nodes.reference):
                image["width"] = "100%"


def setup(app: Any) -> dict[str, bool]:
    """For Sphinx."""
    app.add_transform(Enlarging)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
