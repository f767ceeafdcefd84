"""Every kind of figure on one small atlas: its width, its smallest letters and its title."""

from itertools import combinations

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.text import Text

import fedatlas
from atlas_factory import noisy_trace, write_atlas
from fedatlas.evaluation.selection import choices, select
from fedatlas.figures.colours import METHODS, PALETTE, looks
from fedatlas.figures.curves import _covered
from fedatlas.figures.style import WIDEST, Shown, as_written, look
from fedatlas.schema.runs import Selection
from figure_factory import caption, composed, figure_of
from trace_factory import auroc_trace, falling_trace, make_trace, vertical_trace

RULE = Selection(window=1)
KINDS = [
    {"points": "selected", "costs": ["round"], "also": ["objective"]},
    {"kind": "final", "published": {"run-0": (0.01, 0.002)}},
    {"kind": "sensitivity", "hyper_parameter": "local_step_size"},
    {"kind": "tries"},
    {"kind": "scaling", "groups": {"a": ["run-0", "run-1"]}, "cost": "round", "target": 0.1},
]


def of_runs(runs: int) -> Shown:
    """Runs with long titles, at two points each."""
    values = 0.7 ** np.arange(21) * np.ones((3, 1))
    traces = {
        f"run-{number}": {
            f"p{step}": make_trace(
                values**step, clients=10 * (number + 1), hyper_parameters={"local_step_size": step}
            )
            for step in (0.5, 1.0)
        }
        for number in range(runs)
    }
    titles = {
        run: f"A method that is called {run}, on a long and winding network" for run in traces
    }
    return Shown(titles, traces, choices(select(traces, RULE)), RULE)


@pytest.mark.parametrize("declared", KINDS, ids=str)
def test_figures_fit_a_page_and_can_be_read(declared):
    source = "section 5 of a paper, in place of Figure 3"
    with look():
        title = f"{'Runs that nobody compares with each other, on little data, ' * 2}— {source}"
        canvas = as_written(
            figure_of(**declared).compose(title, of_runs(3 if "kind" in declared else 9))
        )
        canvas.draw_without_rendering()
    assert canvas.get_figwidth() <= WIDEST
    texts = [text for text in canvas.findobj(Text) if text.get_visible() and text.get_text()]
    assert min(text.get_fontsize() for text in texts) >= 8
    assert "\n" not in canvas.get_suptitle() and source in str(canvas.get_label())
    for part in (*canvas.texts, *canvas.legends):
        extent = part.get_window_extent()
        assert extent.x0 >= 0 and extent.x1 <= canvas.bbox.width
    if "kind" not in declared:
        labels = [[str(line.get_label()) for line in place.lines] for place in canvas.axes]
        assert max(sum(label[0] != "_" for label in own) for own in labels) <= 8


def test_a_method_has_its_colour_and_others_what_is_free():
    found = looks({"one": "fedavg", "another": "mine", "SCAFFOLD": "scaffold"})
    assert found["one"].colour == PALETTE[METHODS["fedavg"]]
    assert found["SCAFFOLD"].colour == PALETTE[METHODS["scaffold"]]
    assert found["another"].colour in {*PALETTE.values()} - {found["one"].colour}
    many = looks({f"variant {number}": "fedavg" for number in range(20)})
    assert len({*many.values()}) == 20


@pytest.mark.filterwarnings("error")
def test_a_seed_near_the_largest_number_leaves_the_others_to_be_seen(tmp_path):
    trace = falling_trace([0.8, 0.8, 0.8])
    trace.objective[0, 5:] = 1e300
    file = write_atlas(tmp_path, {"ours": {"one": ({}, {"a": ("A", {"only": trace})})}})
    low, high = fedatlas.plot(file, "objective", "round").figure.axes[0].get_ylim()
    assert low < float(trace.objective[1].min()) and high < 1e3
    assert fedatlas.compare(file, "objective", "round", 0.5).dataset.final_high.item() == np.inf


def test_what_is_covered_is_wider_and_nothing_else_is():
    same, other = falling_trace([0.5, 0.6, 0.7]), falling_trace([0.8, 0.8, 0.8])
    canvas = composed({"page": {"p": same}, "avg": {"p": other}, "scaffold": {"p": same}})
    widths = [{line.get_label(): line.get_lw() for line in place.lines} for place in canvas.axes]
    for own in widths:
        assert own["FedPAGE"] > 2.5 * own["FedAvg"] and own["FedAvg"] == own["SCAFFOLD"]
    assert "Wider lines lie below lines that" in caption(canvas)
    apart = composed({"page": {"p": same}, "avg": {"p": other}})
    assert "ider" not in caption(apart)
    # The end of one beside the start of another is no half of either.
    x = np.arange(11.0)
    assert _covered([(x, 10 - x), (x + 9, np.ones(11))], False, False) == [0, 0]
    assert _covered([(x, np.ones(11)), (x + 5, np.ones(11))], False, False) == [1, 0]
    # An axis of accuracies leaves out the start, beside which two ends are the same.
    ends = {
        run: {"p": auroc_trace(np.r_[0.1, np.linspace(end - 0.01, end, 20)][None])}
        for run, end in (("page", 0.9), ("avg", 0.906))
    }
    assert "ider" not in caption(composed(ends, figure_of(measurement="test_auroc")))


def test_a_caption_counts_the_seeds_that_are_drawn_and_says_where_they_end():
    lost, short = (falling_trace([0.5, 0.6, 0.7, 0.8]) for _ in range(2))
    for name in ("round", "gradient_norm", "objective"):
        lost[name] = lost[name].broadcast_like(lost.gradient_norm).copy()
        lost[name][0, 8:] = np.nan
    lost["status"][0] = "diverged"
    short["round"] = short["round"].broadcast_like(short.gradient_norm).copy()
    short["round"][1, 11:] = short["round"][1, 10]
    told = caption(composed({"page": {"p": lost}, "avg": {"p": short}}))
    assert "range of 3 to 4 seeds" in told
    assert "Curves end with their shortest seed: FedAvg." in told
    assert "shortest" not in caption(composed({"page": {"p": lost}}))


def test_an_axis_explains_exchanges_of_parties_where_such_a_run_is_shown(tmp_path):
    runs = {f"r{rate}": (f"R {rate}", {"only": noisy_trace(rate)}) for rate in (0.6, 0.7)}
    values = 0.5 ** np.arange(9.0)[None]
    parties = {name: (name, {"only": vertical_trace(values)}) for name in ("svrg", "saga")}
    for own, explained in ((runs, False), (parties, True)):
        atlas = write_atlas(tmp_path / str(explained), {"ours": {"one": ({}, own)}})
        curves = fedatlas.plot(atlas, "gradient_norm", "exchanges").figure
        profiles = fedatlas.profile(atlas, "gradient_norm", "exchanges", [0.1]).plot().figure
        for canvas in (curves, profiles):
            label = canvas.axes[0].get_xlabel()
            assert label == "communication rounds" + "\n(of VFB²: dominated updates)" * explained


def test_a_method_without_a_colour_takes_none_that_looks_like_a_shown_one():
    """A shade of dp_gradient_tracking is nearly the palette's pink, which would be free."""
    shown = {"GT": "dp_gradient_tracking", "DP-GT": "dp_gradient_tracking"}
    taken = ("fedpage", "fedavg", "scaffold")
    methods = shown | {name: name for name in taken} | {"Mine": "mine", "Other": "other"}
    found = looks(methods)
    rgb = {title: np.array(to_rgb(one.colour)) for title, one in found.items()}
    for one, other in combinations(rgb, 2):
        assert np.linalg.norm(rgb[one] - rgb[other]) > 0.19
    assert [found[name].colour for name in taken] == [PALETTE[METHODS[name]] for name in taken]
