"""The site: guides as they lie here, pages made from the configuration and the code, examples."""

import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parent
sys.path.insert(0, str(HERE))

from making import commands, configuration, explorer, methods, objectives, papers, public  # noqa: E402

from fedatlas import __version__  # noqa: E402

project = "fedatlas"
author = "the authors of fedatlas"
release = __version__
language = "en"
smartquotes = False  # quotes are the papers'

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx_gallery.gen_gallery",
    "making.anchors",
    "making.enlarging",
    "making.mathematics",
    "making.stacking",
]
exclude_patterns = ["_build", "demo", "examples", "making", "schemas"]
nitpicky = True  # a reference that leads nowhere is a warning, and a warning fails the build

myst_heading_anchors = 4
# Beside the usual ones an experiment in the explorer, for pages in folders here: explorer:NAME.
myst_url_schemes = {
    **dict.fromkeys(("http", "https", "mailto")),
    "explorer": "../explorer/index.html#experiment={{path}}",
}
myst_enable_extensions = ["deflist"]
myst_html_meta = {
    "description": "Papers on federated and distributed optimisation, reproduced and judged, and "
    "their methods on common axes: rounds, bytes, gradients, time, privacy."
}

autodoc_typehints = "none"
autodoc_member_order = "bysource"
default_role = "code"

sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "download_all_examples": False,
    "show_signature": False,
    "show_memory": False,
    "image_scrapers": ("matplotlib", "making.scraper.of_atlas"),
    "capture_repr": ("_repr_html_",),
    "min_reported_time": 60,
    "abort_on_example_error": True,
    "copyfile_regex": "",
    "reset_modules": ("matplotlib",),
    "write_computation_times": False,
}

html_math_renderer = "unicode"  # making.mathematics
html_theme = "pydata_sphinx_theme"
html_title = "fedatlas"
html_favicon = "_static/favicon.svg"
html_context = {"default_mode": "auto"}  # light or dark, as the reader's system is
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_extra_path = ["_extra"]
# These have no section, whose pages the sidebar lists.
html_sidebars = {"start": [], "about": []}
html_use_index = False
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "show_toc_level": 2,
    "logo": {"text": f"fedatlas {release}"},
    "show_prev_next": False,
    "navbar_align": "left",
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": [],
    "footer_end": [],
    "navigation_with_keys": False,
}
html_show_copyright = False
# Where the code lies, as who publishes says.
if repository := os.environ.get("FEDATLAS_REPOSITORY"):
    html_theme_options["icon_links"] = [
        {"name": "Code", "url": repository, "icon": "fa-solid fa-code"}
    ]


def make_pages() -> None:
    """Write what follows from configuration, code and published traces; copy the demo's runs."""
    found = papers.sources(ROOT / "config")
    made = {HERE / "papers" / name: text for name, text in papers.parts(found)}
    made |= {HERE / "reference" / name: text for name, text in configuration.pages()}
    made[HERE / "reference" / "methods.md"] = methods.page()
    made[HERE / "reference" / "objectives.md"] = objectives.page()
    made[HERE / "reference" / "commands.md"] = commands.page()
    for path, text in made.items():
        path.parent.mkdir(exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    found.published.draw_figures(HERE / "papers" / papers.FIGURES)
    results = HERE / "examples" / "results"  # as after `make demo`
    for file in (HERE / "demo").glob("*.nc"):
        folder = results / "experiments" / file.stem
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, folder / "traces.nc")
    shutil.copyfile(HERE / "demo" / "claims.csv", results / "claims.csv")
    explorer.write(HERE / "_extra" / "explorer" / "index.html")


def of_the_gallery(_app: Any, _page: str, source: list[str]) -> None:
    """Links to examples, which a clone has, lead to the gallery's pages, which the site has."""
    link = re.compile(r"(\]\([./]*)examples/(?:(plot_\w+)\.py)?\)")
    source[0] = link.sub(lambda found: f"{found[1]}gallery/{found[2] or 'index'}.rst)", source[0])


def setup(app: Any) -> None:
    """For Sphinx."""
    make_pages()  # before Sphinx looks for pages, and runs examples
    app.connect("autodoc-process-docstring", public.as_restructured_text)
    app.connect("source-read", of_the_gallery)
