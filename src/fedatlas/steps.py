"""The table of the workflow's steps: the function of each, its files, and where people see them.

Rules are named after steps. They take from here which files they make, and on which code these
depend. The report, the summary and dry runs take from here what a file holds. Nothing is imported
before a step runs: see `fedatlas.cli.step`.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeAlias


class File(NamedTuple):
    """A file that a step makes.

    path: below the folder of results, with wildcards. holds: its contents in words; empty for files
    that people do not look at. section: the section of the report that shows it; empty if none
    does. folder: whether it is a folder.
    """

    path: str
    holds: str = ""
    section: str = ""
    folder: bool = False

    @property
    def name(self) -> str:
        """The path's last part."""
        return self.path.rpartition("/")[2]


Files: TypeAlias = Mapping[str, File | tuple[File, ...]]


class Step(NamedTuple):
    """A step of the workflow.

    function: "module:function", which takes files and specification by name. about: what it does,
    in a line. makes: its files, by the function's argument. code: modules on which the results
    depend, with all that they import; the plan adds modules that an experiment needs. made_for: the
    key of experiments that asks for the step; all experiments have "selection"; empty for a step
    that belongs to no single experiment. caption: the caption of its files in the report.
    """

    function: str
    about: str
    makes: Files
    code: tuple[str, ...] = ()
    made_for: str = ""
    caption: str = ""

    def files(self) -> Iterator[File]:
        """All files that it makes."""
        for made in self.makes.values():
            yield from (made,) if isinstance(made, File) else made


def _own(name: str, holds: str = "", section: str = "") -> File:
    """A file of an experiment."""
    return File(f"experiments/{{experiment}}/{name}", holds, section)


def _drawn(name: str, holds: str, section: str) -> Files:
    """A drawing of an experiment, which the report shows as SVG."""
    return {"output": (_own(f"{name}.svg", holds, section), _own(f"{name}.png"))}


_TABLES = "fedatlas.evaluation.tables"
_CLAIMS = (
    "Every claim with its outcome, and its cases below it. Paired differences over seeds are "
    "compared with zero and with the smallest effect that counts; a drawing shows the interval "
    "beside that region. A failed claim is a finding about the setting that was run, which stands "
    "beside it. ``fedatlas power`` prints how many seeds would decide each undecided claim."
)

STEPS: Mapping[str, Step] = {
    "download_file": Step(
        "fedatlas.data.catalogue:download_file",
        "Download a raw file, verify it and decompress it.",
        {"output": File("raw/{file}")},
    ),
    "download_folder": Step(
        "fedatlas.data.catalogue:download_file",
        "Download an archive, verify it and unpack it into a folder.",
        {"output": File("raw/{file}", folder=True)},
    ),
    "prepare_split": Step(
        "fedatlas.data.catalogue:prepare_split",
        "Turn a split's raw files into one Parquet file, and record their checksums.",
        {"output": File("data/{dataset}/{split}.parquet")},
    ),
    "shard_split": Step(
        "fedatlas.shards.writing:write_shards",
        "Distribute a prepared split over clients, parties, or silos with clients.",
        {"manifest": File("shards/{dataset}/{split}/{partition}/manifest.json")},
    ),
    "find_optimum": Step(
        "fedatlas.training.solver:find_optimum",
        "Compute an objective's optimum on all training rows together.",
        {"output": File("optima/{dataset}/{split}/{rows}/{objective}.json")},
        ("fedatlas.training.solver",),
    ),
    "train_run": Step(
        "fedatlas.training.steps:train_run",
        "Train points of an experiment in one process; seeds that have results are skipped.",
        {"output": _own("traces/{run}/{point}.nc")},
    ),
    # No rule uses this step; it is for a run by hand, with files at any place.
    "train_alone": Step(
        "fedatlas.training.steps:train_alone",
        "Train one run from the specification that `fedatlas spec` prints, into any file.",
        {},
    ),
    "select_points": Step(
        "fedatlas.evaluation.selection:select_points",
        "Choose each run's grid point by the experiment's rule, and join all runs in one file.",
        {
            "output": _own("selection.json", "choice of points"),
            "joined": _own("traces.nc", "all runs"),
        },
        ("fedatlas.evaluation.selection",),
        made_for="selection",
    ),
    "tabulate_results": Step(
        "fedatlas.pages.results_table:tabulate_results",
        "Tabulate final measurements and costs of every grid point of an experiment.",
        {"output": _own("table.csv", "where all runs ended", "Experiments")},
        ("fedatlas.pages.results_table",),
        made_for="trained",
        caption="Final measurements of every run (median, lowest and highest of the seeds that did "
        "not diverge) and its costs. ``selected`` marks the grid point that the experiment's rule "
        "chose.",
    ),
    "draw_figure": Step(
        "fedatlas.figures.style:draw_figure",
        "Draw an experiment's figure.",
        _drawn("figure", "figure", "Experiments"),
        ("fedatlas.figures.style",),
        made_for="trained",
        caption="Lines are medians over seeds; bands reach from the lowest to the highest seed. "
        "Ticks on the lower edge of the first column mark rare rounds in which every client took "
        "part.",
    ),
    "judge_claims": Step(
        "fedatlas.evaluation.verdicts:judge_claims",
        "Judge an experiment's claims.",
        {"output": _own("claims.csv", "verdicts")},
        ("fedatlas.evaluation.verdicts",),
        made_for="selection",
    ),
    "collect_claims": Step(
        "fedatlas.pages.claims_page:collect_claims",
        "Join verdicts of several experiments into one table and one page.",
        {
            "csv": File("claims/{collection}.csv"),
            "html": File("claims/{collection}.html", "verdicts", "Claims"),
        },
        ("fedatlas.pages.claims_page",),
        caption=_CLAIMS,
    ),
    "collect_all_claims": Step(
        "fedatlas.pages.claims_page:collect_claims",
        "Join the verdicts of all selected experiments into one table and one page.",
        {"csv": File("claims.csv"), "html": File("claims.html", "verdicts", "Claims")},
        ("fedatlas.pages.claims_page",),
        caption=_CLAIMS,
    ),
    "draw_graphs": Step(
        "fedatlas.figures.graphs:draw_graphs",
        "Draw the graphs over which agents send.",
        _drawn("graphs", "who sends to whom", "Experiments"),
        ("fedatlas.figures.graphs",),
        made_for="own_graphs",
        caption="Who sends to whom: one graph for states, the other for gradient trackers, if "
        "there are any. Numbers are the receivers' weights. DP-GT's Assumption 1 needs a common "
        "root of both graphs.",
    ),
    "compute_budgets": Step(
        "fedatlas.studies.budgets:compute_budgets",
        "Compute the privacy that runs spend, and check theorems' conditions, without training.",
        {
            "output": _own("budgets.nc"),
            "conditions": _own("conditions.csv", "conditions of theorems", "Privacy"),
        },
        ("fedatlas.studies.budgets", "fedatlas.store.netcdf"),
        made_for="budgets",
        caption="The conditions of DP-GT's assumptions and theorems on each run's steps, noise and "
        "graphs, and whether they hold. Where a condition depends on the objective's smoothness L "
        "or its constant μ, the bound is the value that L or μ would need. The last row of a "
        "run is not a condition: it gives the noise that accumulates in the agents' mean.",
    ),
    "draw_budgets": Step(
        "fedatlas.figures.privacy:draw_budgets",
        "Draw privacy budgets by iteration and by horizon.",
        _drawn("budgets", "privacy budgets", "Privacy"),
        ("fedatlas.figures.privacy", "fedatlas.evaluation.tables"),
        made_for="budgets",
        caption="Privacy spent: ε (and δ) by iteration of a run, and for whole runs by their "
        "horizon. Solid lines are the papers' own accountings; docs/findings/dpgt.md lists their "
        "assumptions.",
    ),
    "tabulate_theory": Step(
        "fedatlas.studies.theory:tabulate_theory",
        "Tabulate which theorems cover which runs, how far step sizes exceed theirs, and bounds.",
        {"output": _own("theory.csv", "theorems and runs", "Theory")},
        ("fedatlas.studies.theory", _TABLES),
        made_for="theory",
        caption="The theorems about each run's method: whether they cover its steps, by what "
        "factor these exceed the largest covered ones, and the bound after the run's rounds beside "
        "the measured value. Bounds hold for means over rounds. Theorems are given as printed and, "
        "where their proofs need smaller steps, also corrected.",
    ),
    "draw_theory": Step(
        "fedatlas.figures.theory:draw_theory",
        "Draw the bounds of theorems over measurements of runs.",
        _drawn("theory", "bounds of theorems", "Theory"),
        ("fedatlas.figures.theory",),
        made_for="theory",
        caption="The bounds of theorems, drawn over the measurements of runs.",
    ),
    "tabulate_worst_cases": Step(
        "fedatlas.studies.worst_cases:tabulate_worst_cases",
        "Compute exact worst cases over a class of functions, beside theorems and runs.",
        {"output": _own("worst-cases.csv", "exact worst cases, theorems and runs", "Theory")},
        ("fedatlas.studies.worst_cases", _TABLES),
        made_for="worst_cases",
        caption="The worst value of each method after its rounds over all functions of a class, by "
        "step: the dual's value, which no function exceeds, and the primal's value. Beside them "
        "stand the bound of a theorem with constants for the same step, if one covers it, and the "
        "largest value of a run on quadratics of the class. `own_step` is the theorem's own step. "
        "docs/worst-cases.md explains the method.",
    ),
    "draw_worst_cases": Step(
        "fedatlas.figures.theory:draw_worst_cases",
        "Draw theorem, exact worst case and runs by step size.",
        _drawn("worst-cases", "exact worst cases by step", "Theory"),
        ("fedatlas.figures.theory",),
        made_for="worst_cases",
        caption="A panel for each method, by step: its theorem's bound, its exact worst case, and "
        "the largest value of a run on quadratics of the class.",
    ),
    "attack_budgets": Step(
        "fedatlas.studies.privacy_audit:attack_budgets",
        "Test the privacy that runs claim on pairs of data sets of a tiny problem.",
        {
            "output": _own(
                "privacy-audit.csv", "claimed budgets and pairs of data sets", "Privacy"
            ),
        },
        ("fedatlas.studies.privacy_audit", _TABLES),
        made_for="privacy_audit",
        caption="The privacy ε that is truly lost for a pair of data sets, beside the claim of "
        "every accounting. The data sets differ in one sample, or in one client around a server. "
        "ε is computed by a sum where the differences are known, and bounded from below by attacks "
        "on sampled runs. A claim below the pair's ε is refuted. Columns `refuted_below` and "
        "`refuted_above` give the curvatures from which on it is.",
    ),
    "tabulate_constants": Step(
        "fedatlas.studies.constants:tabulate_constants",
        "Tabulate the measurements of the best constant predictor.",
        {"output": _own("constants.csv", "measurements of constant predictors")},
        ("fedatlas.studies.constants",),
        made_for="predicts",
    ),
    "tabulate_leaks": Step(
        "fedatlas.studies.recovery:tabulate_leaks",
        "Tabulate what curious or colluding parties learn from a vertical method's messages.",
        {
            "output": _own("leaks.csv", "what parties learn from each other", "Privacy"),
            "recovery": _own("recovery.csv", "what histories reveal, as numbers", "Privacy"),
        },
        (
            "fedatlas.studies.leaks",
            "fedatlas.studies.recovery",
            _TABLES,
            "fedatlas.training.solver",
            "fedatlas.federations.vertical.shards",
        ),
        made_for="audit",
        caption="leaks.csv: what honest but curious parties, alone or together, learn from the "
        'messages of VFB², beside the paper\'s claim and the assumption of the attack. "Stands" '
        "means only that this attack does not refute the claim. recovery.csv: attacks on the "
        "message history of a training.",
    ),
    "draw_recovery": Step(
        "fedatlas.figures.privacy:draw_recovery",
        "Draw how much a history of shares reveals, by its length.",
        _drawn("recovery", "what histories of messages reveal", "Privacy"),
        ("fedatlas.figures.privacy",),
        made_for="audit",
        caption="Attacks on the message history of a training: how well colluding parties, or one "
        "alone, reconstruct features, weights, shares and labels from several snapshots. The "
        "training is repeated on 128 rows without delays. An error of 1 is as bad as guessing "
        "zeros, or the mean.",
    ),
    "tabulate_collusion": Step(
        "fedatlas.studies.leaks:tabulate_collusion",
        "Tabulate which groups of parties unmask shares, and what Definition 4 of VFB² achieves.",
        {
            "output": _own("collusion.csv", "groups of parties that unmask shares", "Privacy"),
            "pairs": _own("tree-pairs.csv", "pairs of trees that expose shares", "Privacy"),
        },
        ("fedatlas.studies.leaks", _TABLES),
        made_for="audit",
        caption="collusion.csv: groups of colluders among 2 to 8 parties, and how many groups "
        "unmask the share of an honest party in VFB²'s secure sum. It counts them for one "
        "dominator, for each of them, and for trees drawn anew for each sum, with fresh masks and "
        "with masks that two sums share. tree-pairs.csv: pairs of aggregation trees, how many are "
        "significantly different by VFB²'s Definition 4, and how many of these show a share to a "
        "party without allies. Up to 5 parties these are all pairs, beyond that 1000 random "
        "ones. Neither table depends on data.",
    ),
    "draw_trees": Step(
        "fedatlas.figures.graphs:draw_trees",
        "Draw the two trees along which parties compute sums.",
        _drawn("trees", "trees of secure sums", "Privacy"),
        ("fedatlas.figures.graphs",),
        made_for="audit",
        caption="The two significantly different trees (VFB², Definition 4) along which parties "
        "sum masked shares and masks.",
    ),
    "validate_parties": Step(
        "fedatlas.studies.validation:validate_parties",
        "Compare the simulated network with real processes: times, staleness, speed-up.",
        {
            "output": _own("validation.csv", "how far the simulation is off", "Experiments"),
            "curves": _own("validation.json"),
            "times": _own("validation-times.csv"),
        },
        ("fedatlas.studies.validation", _TABLES),
        made_for="validation",
        caption="VFB²-SGD, run by parties that are processes, and simulated in a network fitted to "
        "their measured times: time, staleness and speed-up, with the relative errors of the "
        "simulation.",
    ),
    "draw_validation": Step(
        "fedatlas.figures.studies:draw_validation",
        "Draw the simulated network beside processes.",
        _drawn("validation", "parties that are processes, and their simulation", "Experiments"),
        ("fedatlas.figures.studies",),
        made_for="validation",
        caption="VFB²-SGD, run by parties that are processes, and simulated in a network fitted to "
        "their measured times.",
    ),
    "compute_landscape": Step(
        "fedatlas.studies.landscape:compute_landscape",
        "Compute the loss surface of a network with two parameters, and its stationary points.",
        {"output": _own("landscape.json")},
        ("fedatlas.studies.landscape",),
        made_for="landscape",
    ),
    "draw_landscape": Step(
        "fedatlas.figures.studies:draw_landscape",
        "Draw a loss surface with its stationary points.",
        _drawn("landscape", "loss surface", "Experiments"),
        ("fedatlas.figures.studies",),
        made_for="landscape",
        caption="The loss surface over the network's two parameters: the minimum over a and b of "
        "the maximum over w. Marks are stationary points, found from a grid of starts and "
        "classified by the eigenvalues of the surface's Hessian. Colours follow the cube root of "
        "the height. `landscape.json` holds the numbers, and the eigenvalues of the Hessian of Φ "
        "in (m, a, b).",
    ),
    "write_summary": Step(
        "fedatlas.pages.summary:write_summary",
        "Write a Markdown summary: what was run, published numbers, verdicts and errata.",
        {"output": File("summary.md", "what was run, published numbers, verdicts and errata")},
        ("fedatlas.pages.summary",),
    ),
    "write_explorer": Step(
        "fedatlas.pages.explorer:write_explorer",
        "Write the page that explores the atlas.",
        {
            "output": File("explorer.html", "all curves and verdicts, to explore offline"),
            "curves": File("explorer", folder=True),
        },
        ("fedatlas.pages.explorer",),
    ),
}
