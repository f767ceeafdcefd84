"""What `import fedatlas` offers to people at a prompt: the examples of docstrings, and more."""

import doctest
import importlib
from typing import get_type_hints

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib import image

import fedatlas
from atlas_factory import small_atlas
from fedatlas.errors import FedatlasError
from fedatlas.evaluation.levels import cost_axis

STORE = ("comparison", "compared", "views", "plotting", "profiling", "atlas")
MODULES = (*(f"store.{name}" for name in STORE), "notebook")
OFFERED = [name for name in fedatlas.__all__ if name != "__version__"]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return small_atlas(tmp_path_factory.mktemp("atlas") / "atlas")


@pytest.mark.parametrize("module", MODULES)
def test_examples_of_docstrings_do_what_they_say(module, path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plt.switch_backend("agg")
    module = importlib.import_module(f"fedatlas.{module}")
    options = doctest.NORMALIZE_WHITESPACE
    found = doctest.DocTestFinder().find(module, extraglobs={"ATLAS": path, "fedatlas": fedatlas})
    runner = doctest.DocTestRunner(optionflags=options)
    for example in found:
        runner.run(example)
    plt.close("all")
    assert not runner.summarize().failed


def test_what_is_offered_is_listed_typed_and_has_an_example():
    assert sorted(dir(fedatlas)) == sorted(fedatlas.__all__)
    for name in OFFERED:
        offered = getattr(fedatlas, name)
        assert ">>> " in offered.__doc__, name
        module = importlib.import_module(offered.__module__)
        assert get_type_hints(offered, vars(module)).keys() >= {"return"}, name


def test_a_path_is_as_good_as_an_open_atlas(path):
    asked = ("gradient_norm", "bytes", 0.1)
    atlas = fedatlas.open_atlas(path)
    opened = fedatlas.compare(atlas, *asked)
    at = fedatlas.interpolate(atlas, "gradient_norm", "bytes", [1e4])
    assert "fedpage: fedpage-first, fedpage-gone" in repr(atlas)
    assert fedatlas.compare(str(path), *asked).dataset.identical(opened.dataset)
    assert fedatlas.interpolate(path, "gradient_norm", "bytes", [1e4]).identical(at)


def test_a_comparison_prints_a_table_of_what_it_holds(path):
    found = fedatlas.compare(path, "gradient_norm", ["round", "bytes"], 0.1, all_points=True)
    table = found.table()
    assert list(table.columns) == ["round", "bytes", "seeds"]
    assert len(set(table.index)) == len(table) == found.dataset.sizes["run"]
    assert table.loc["fedpage-gone: FedAvg", "round"] == "never"
    assert table.loc["fedpage-first: FedAvg"].tolist()[2] == "2 of 3"
    assert table.to_string() in repr(found) and "<table" in found._repr_html_()
    assert len(found.to_dataframe()) == 2 * len(table)


def test_a_selected_trace_has_all_costs_and_keeps_them_under_a_median(path):
    atlas = fedatlas.open_atlas(path)
    place = "fedpage/fedpage-first/page/step_size-0.1"
    stored = atlas.dataset(place).load()
    trace = atlas.sel("fedpage-first", "page").load()
    other = atlas.sel("fedpage-first", "page", "step_size-0.3").load()
    assert other.attrs["point"] == "step_size-0.3"
    for cost in ("round", "bytes", "exchanges", "gradient_evaluations"):
        of_seeds = np.broadcast_to(trace[cost], (3, trace.sizes["record"]))
        np.testing.assert_array_equal(of_seeds, cost_axis(stored, cost))
    assert "round" in trace.median("seed").coords  # all seeds have the same rounds
    median = fedatlas.along(trace, "round").median("seed")
    np.testing.assert_allclose(median["bytes"], np.median(cost_axis(stored, "bytes"), axis=0))
    np.testing.assert_allclose(median["cost"], cost_axis(stored, "round")[0])


def test_seeds_along_a_cost_are_those_of_a_plain_loop(path):
    atlas = fedatlas.open_atlas(path)
    trace = atlas.sel("fedpage-first", "avg").load()
    found = fedatlas.along(trace, "bytes")
    assert found["gradient_norm"].isnull().all("cost").values.tolist() == [False, True, False]
    costs = np.broadcast_to(trace["bytes"], trace["gradient_norm"].shape)
    for seed in (0, 2):
        for at, value in zip(
            found["cost"].values, found["gradient_norm"].values[seed], strict=True
        ):
            after = int(np.argmax(costs[seed] >= at))
            before = max(after - 1, 0)
            (x0, x1), (y0, y1) = (
                rows[seed][[before, after]] for rows in (costs, trace["gradient_norm"].values)
            )
            share = (at - x0) / (x1 - x0) if x1 > x0 else 1.0
            assert value == pytest.approx(y0 + share * (y1 - y0))


def test_a_plot_is_shown_and_saved(path, tmp_path):
    drawn = fedatlas.plot(path, "gradient_norm", ["round", "bytes"], runs=["page", "avg"])
    assert drawn._repr_png_().startswith(b"\x89PNG")
    assert drawn.figure.axes[0].get_xlabel() == "communication rounds"
    drawn.save(tmp_path / "figure.png")
    assert image.imread(tmp_path / "figure.png").shape[0] > 300


def test_a_plot_has_rates(path):
    rates = {"page": {"O(1/r)": "c / round"}}
    (place,) = fedatlas.plot(path, "gradient_norm", "round", rates=rates).figure.axes
    assert "O(1/r)" in [text.get_text() for text in place.get_legend().get_texts()]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (lambda atlas: atlas.sel("fedpage-frst", "page"), "similar: fedpage-first"),
        (lambda atlas: atlas.sel("fedpage-first", "xyz"), "there are page, avg, auc"),
        (lambda atlas: atlas.sel("fedpage-first", "page", "9"), "point: '9' is not in the atlas"),
        (lambda atlas: fedatlas.along(atlas.sel("fedpage-first", "page"), "byte"), "it counts"),
        (lambda atlas: fedatlas.plot(atlas, "gradient_nrm"), "gradient_nrm"),
        (lambda atlas: fedatlas.plot(atlas, "gradient_norm", runs=["x"]), "runs: x not found"),
        (
            lambda atlas: fedatlas.plot(atlas, "objective", rates={"pag": {"a": "c / round"}}),
            "plot: rates: no run 'pag' is drawn; runs are",
        ),
        (lambda atlas: fedatlas.plot(atlas, "train_f1"), "measures 'train_f1'"),
    ],
)
def test_what_is_not_there_is_said(path, asked, said):
    with pytest.raises(FedatlasError, match=said):
        asked(fedatlas.open_atlas(path))
