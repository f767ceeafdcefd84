"""Figures for papers: curves for pgfplots, fonts within, a journal's width."""

import re

import numpy as np
import pandas as pd
import pytest

import fedatlas
from atlas_factory import noisy_trace, small_atlas, write_atlas
from fedatlas.errors import FedatlasError


@pytest.fixture(scope="module")
def atlas(tmp_path_factory):
    return fedatlas.open_atlas(small_atlas(tmp_path_factory.mktemp("figures") / "atlas"))


def test_pgfplots_gets_medians_and_bands_of_every_curve(atlas, tmp_path):
    drawn = fedatlas.plot(atlas, "gradient_norm", ["round", "bytes"], experiments=["fedpage-first"])
    drawn.save(tmp_path / "curves.tex")
    text = (tmp_path / "curves.tex").read_text(encoding="utf-8")
    assert "group size=2 by 1" in text and text.count(r"\nextgroupplot[xlabel=") == 2
    assert re.findall(r"\\addlegendentry{(.*)}", text) == ["FedAvg", "FedPAGE"]
    assert text.count("table[") == 3 * 4 and "ymode=log" in text
    numbers = pd.read_csv(tmp_path / "curves.dat", sep=" ")
    trace = atlas.sel("fedpage-first", "page")
    values = trace["gradient_norm"].to_numpy()  # rounds are those of all seeds
    own = numbers[["x1", "y1", "low1", "high1"]].dropna()
    assert np.allclose(own["x1"], trace["round"])
    expected = np.median(values, axis=0), values.min(axis=0), values.max(axis=0)
    assert np.allclose(own[["y1", "low1", "high1"]].T, expected)


def test_pgfplots_keeps_to_the_width_with_its_legend_below_all_panels(atlas, tmp_path):
    asked = ("gradient_norm", ["round", "bytes"])
    found = {}
    for style in ("column", ""):
        drawn = fedatlas.plot(atlas, *asked, experiments=["fedpage-first"], style=style)
        drawn.save(tmp_path / "a_b.tex")
        found[style] = (tmp_path / "a_b.tex").read_text(encoding="utf-8")
    for style, panels, most in (("column", "1 by 2", 3.5), ("", "2 by 1", 7.1)):
        text = found[style]
        width = float(re.search(r"axis, width=([\d.]+)in", text)[1])
        assert f"group size={panels}" in text and 0.7 * most < width * int(panels[0]) + 0.85 <= most
        # Colours are known where the legend is, behind the last panel.
        head, _, rest = text.partition(r"\begin{groupplot}")
        assert head.count(r"\definecolor") == 4 and r"\definecolor" not in rest
        assert "legend to name=a_b," in text
        assert r"\pgfplotslegendfromname{a_b}" in text.partition(r"\end{groupplot}")[2]


def test_a_column_holds_panels_and_legend_and_leaves_notes_to_the_caption(tmp_path):
    name = "A method whose title says at length what it does, and when, and to whom"
    runs = {f"r{at}": (f"{name} {at}", {"only": noisy_trace(0.8)}) for at in range(12)}
    atlas = write_atlas(tmp_path / "atlas", {"ours": {"one": ({}, runs)}})
    drawn = fedatlas.plot(atlas, "gradient_norm", ["round", "bytes"], style="column")
    canvas = drawn.figure
    drawn.save(tmp_path / "curves.png")
    (legend,) = canvas.legends
    assert 0 <= legend.get_window_extent().x0 < legend.get_window_extent().x1 <= canvas.bbox.width
    assert canvas.get_figwidth() == 3.5 and not canvas.texts
    for place in canvas.axes:
        assert place.get_window_extent().height > canvas.dpi  # inches
    assert drawn.note.startswith("lines: median, bars: range of 3 seeds; wider lines")
    lines = [line for line in canvas.axes[0].lines if not line.get_label().startswith("_")]
    assert len({(line.get_color(), line.get_marker()) for line in lines}) == len(lines) == 6


def test_a_pdf_has_its_fonts_and_no_date(atlas, tmp_path):
    drawn = fedatlas.plot(atlas, "gradient_norm", "round", experiments=["fedpage-first"])
    drawn.save(tmp_path / "curves.pdf")
    content = (tmp_path / "curves.pdf").read_bytes()
    assert b"/FontFile2" in content and b"/Type3" not in content and b"/CreationDate" not in content


def test_a_style_says_how_wide_figures_are(atlas, tmp_path):
    asked = {"metric": "gradient_norm", "cost": "round", "experiments": ["fedpage-first"]}
    drawn = fedatlas.plot(atlas, **asked, style="column").figure
    assert drawn.get_figwidth() == 3.5 and not drawn.axes[0].get_legend() and drawn.legends
    (tmp_path / "mine.mplstyle").write_text("figure.figsize: 7, 3\nfont.size: 11\n")
    drawn = fedatlas.plot(atlas, **asked, style=tmp_path / "mine.mplstyle").figure
    assert [*drawn.get_size_inches()] == [7, 3] and drawn.axes[0].xaxis.label.get_size() == 11
    assert fedatlas.plot(atlas, **asked).figure.get_figwidth() == 9.4
    with pytest.raises(FedatlasError, match=r"f\.doc: must end in \.png, \.svg, \.pdf or \.tex"):
        fedatlas.plot(atlas, **asked).save(tmp_path / "f.doc")
    with pytest.raises(FedatlasError, match="style: 'colum' is no file of matplotlib's"):
        fedatlas.plot(atlas, **asked, style="colum")
