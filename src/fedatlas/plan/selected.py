"""What is made across the selected experiments: targets, the joined atlas, the summary."""

import re
from collections.abc import Collection, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from fedatlas.errors import FedatlasError
from fedatlas.plan.build import Plan, build_plan, group_of, heads_in
from fedatlas.plan.kept import kept_runs
from fedatlas.plan.places import RESULTS
from fedatlas.plan.results import experiment_files, traces
from fedatlas.schema.papers import DEMO, OURS


def targets(plan: Plan) -> list[str]:
    """What can be asked for by name: every paper, then every other folder but the demo's."""
    groups = dict.fromkeys(sorted(head.group for head in plan.heads))
    return list(dict.fromkeys([*plan.papers, *(group for group in groups if group != DEMO)]))


def plan_command(
    words: Sequence[str],
    selected: Sequence[str],
    config_folder: Path,
    *projects: Path,
    named: bool = True,
) -> tuple[Plan, dict[str, list[str]]]:
    """The plan of what a command is about, and the experiments that words of it name.

    Such words are names, or globs of names: they begin with a group and a hyphen. selected: what it
    is about without any. named: whether there may be some. FedatlasError if one matches nothing.
    """
    groups = {head.group for head in heads_in(config_folder, *projects)} if named else set()
    globs = [
        word
        for word in words
        if group_of(word) in groups.difference([word]) and not set("=/").intersection(word)
    ]
    # Of other experiments files may be asked for, or jobs.
    within = re.findall(r"experiments?[/=]([a-z0-9-]+)", " ".join(words))
    plan = build_plan(config_folder, *projects, names=[*(globs or selected), *within])
    return plan, {word: plan.select([word]) for word in globs}


def commands_name_experiments(workflow: Any, config: Any) -> bool:
    """Whether words of a command may name experiments; else only the configuration selects.

    Not in a module whose rules have other names, nor where the configuration is a part of the
    command's: a job elsewhere could not be told what the command named.
    workflow, config: Snakemake's, while it reads the Snakefile.
    """
    outermost = workflow.modifier
    while outermost.parent_modifier is not None:
        outermost = outermost.parent_modifier
    renamed = workflow.modifier.modify_rulename("all") != "all"
    return not renamed and config is outermost.globals["config"]


def runs_shown(plan: Plan, names: Collection[str]) -> dict[str, list[str]]:
    """Experiments without runs of their own → the runs of others that they show."""
    shown = {name: plan.experiments[name] for name in names}
    return {
        name: [f"{experiment.runs_of}/{run}" for run in experiment.runs]
        for name, experiment in shown.items()
        if experiment.runs_of
    }


class Selected:
    """The experiments that the configuration selects."""

    def __init__(self, plan: Plan, patterns: Sequence[str], *, named: bool = True) -> None:
        """patterns: names of experiments, or globs. named: see `commands_name_experiments`."""
        self._plan, self._named = plan, named
        self.names = plan.select(patterns)

    def members(self, *groups: str) -> list[str]:
        """The experiments of these groups."""
        return [name for name in self.names if group_of(name) in groups]

    def claims(self, *groups: str) -> list[str]:
        """The verdicts of these groups' experiments; of all without groups."""
        names = self.members(*groups) if groups else self.names
        return [f"{RESULTS}/experiments/{name}/claims.csv" for name in names]

    def results(self) -> list[str]:
        """What is made of every experiment."""
        return [file for name in self.names for file in experiment_files(self._plan, name)]

    def results_of(self, *groups: str) -> list[str]:
        """What is made of the groups' experiments, and each group's verdicts."""
        chosen = self.members(*groups)
        if not chosen:
            how = (
                f"name experiments in place of the target, such as '{groups[0]}-*', or put behind "
                f"the target --configfile config/paper.yaml, or "
                f"--config 'experiments=[\"{groups[0]}-*\"]'"
                if self._named
                else "write them into what the module's `config` names, such as "
                f'experiments: ["{groups[0]}-*"]'
            )
            raise FedatlasError(f"no experiment of {', '.join(groups)} is selected: {how}")
        verdicts = [
            f"{RESULTS}/claims/{group}.{kind}"
            for group in sorted(set(map(group_of, chosen)))
            for kind in ("csv", "html")
        ]
        return [file for name in chosen for file in experiment_files(self._plan, name)] + verdicts

    def files_named(self, name: str) -> list[str]:
        """The file of that name of every experiment that has one."""
        return [file for file in self.results() if Path(file).name == name]

    def published_traces(self) -> list[str]:
        """Traces of runs for which papers print where they end."""
        files: set[str] = set()
        for name in self.names:
            experiment = self._plan.experiments[name]
            tests = [claim.test for claim in experiment.claims]
            judged = [test.runs for test in tests if test.kind == "published_measurement"]
            runs = set(experiment.figure.printed).union(*judged)
            files |= {file for file in traces(self._plan, name) if Path(file).parent.name in runs}
        return sorted(files)

    def runs_shown(self) -> dict[str, list[str]]:
        """Experiments without runs of their own → the runs of others that they show."""
        return runs_shown(self._plan, self.names)

    @cached_property
    def joined_runs(self) -> dict[str, dict[str, str]]:
        """Runs in the atlas: owner → run → the experiment that chooses its point.

        The owner's selection goes before those of experiments that only show its runs.
        """
        joined: dict[str, dict[str, str]] = {}
        for name in self.names:
            experiment = self._plan.experiments[name]
            owner = experiment.runs_of or name
            for run in experiment.runs if experiment.trained else ():
                runs = joined.setdefault(owner, {})
                if owner == name or run not in runs:
                    runs[run] = name
        return joined

    @cached_property
    def joined_papers(self) -> list[str]:
        """Papers that have traces in the atlas, `ours` among them."""
        return sorted({self._plan.experiments[owner].paper for owner in self.joined_runs})

    def joined_of(self, paper: str) -> dict[str, dict[str, str]]:
        """`joined_runs` of one paper."""
        experiments = self._plan.experiments
        return {
            owner: runs
            for owner, runs in self.joined_runs.items()
            if experiments[owner].paper == paper
        }

    def joined_traces(self, paper: str) -> list[str]:
        """The paper's traces in the atlas, each once."""
        return [
            file
            for owner, runs in self.joined_of(paper).items()
            for file in traces(self._plan, owner)
            if Path(file).parent.name in runs
        ]

    def joined_selections(self, paper: str) -> list[str]:
        """The selections that choose points of the paper's runs in the atlas."""
        chosen = {name for runs in self.joined_of(paper).values() for name in runs.values()}
        return [f"{RESULTS}/experiments/{name}/selection.json" for name in sorted(chosen)]

    def joined_specification(self, paper: str) -> dict[str, Any]:
        """What the paper's part of the atlas holds; lists, since their order is kept."""
        experiments = []
        for owner, chosen_in in self.joined_of(paper).items():
            points: dict[str, list[str]] = {run: [] for run in chosen_in}
            code = {spec.run: "+".join(spec.code) for spec in self._plan.runs_of(owner)}
            for spec in self._plan.runs_of(owner):
                if spec.run in points:
                    points[spec.run].append(spec.point)
            runs = [
                {
                    "name": run,
                    "title": title,
                    "code": code[run],
                    "selected_in": chosen_in[run],
                    "points": points[run],
                }
                for run, title in self._plan.run_titles(owner).items()
                if run in chosen_in
            ]
            kept = {"title", "source", "notes", "dataset"}
            declared = self._plan.experiments[owner].model_dump(mode="json", include=kept)
            experiments.append({"name": owner, **declared, "runs": runs})
        return {"paper": paper, "experiments": experiments}

    def kept_runs(self, results: Path) -> dict[str, bool]:
        """See `fedatlas.plan.kept.kept_runs`."""
        return kept_runs(self._plan, self.joined_runs, results)

    def atlas_across_papers(self) -> list[str]:
        """The atlas, if a selected experiment compares runs across papers."""
        selected = [self._plan.experiments[name] for name in self.names]
        across = any(experiment.trained and experiment.paper == OURS for experiment in selected)
        return [f"{RESULTS}/atlas/atlas.nc"] if across else []
