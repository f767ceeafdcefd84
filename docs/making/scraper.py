"""Figures of `fedatlas.plot` in the gallery, which by itself finds those of pyplot only."""

from typing import Any

from sphinx_gallery.scrapers import figure_rst

from fedatlas.store.plotting import Plot


def of_atlas(block: Any, variables: dict[str, Any], conf: dict[str, Any]) -> str:
    """For sphinx-gallery: saves the plots that a block of an example names for the first time."""
    del block
    names = variables.setdefault("plots_shown", set())
    found = {
        name
        for name, value in variables["example_globals"].items()
        if isinstance(value, Plot) and name not in names
    }
    names |= found
    paths = [next(variables["image_path_iterator"]) for _ in found]
    for name, path in zip(sorted(found), paths, strict=True):
        variables["example_globals"][name].save(path)
    return figure_rst(paths, conf["src_dir"])
