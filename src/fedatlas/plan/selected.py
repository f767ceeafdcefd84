"""Results of all selected experiments: targets, the joined atlas, the summary."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedatlas.errors import FedatlasError
from fedatlas.plan.build import Plan, build_plan, group_of, heads_in
from fedatlas.plan.places import RESULTS
from fedatlas.plan.results import experiment_files, made_of_traces
from fedatlas.schema.papers import DEMO


def targets(plan: Plan) -> list[str]:
    """Targets that a user can name: every paper, then every other folder but the demo's."""
    groups = dict.fromkeys(sorted(head.group for head in plan.heads))
    return list(dict.fromkeys([*plan.papers, *(group for group in groups if group != DEMO)]))


def plan_command(
    words: Sequence[str],
    selected: Sequence[str],
    config_folder: Path,
    *projects: Path,
    named: bool = True,
    added_seeds: Mapping[str, int] | None = None,
) -> tuple[Plan, dict[str, list[str]]]:
    """The plan of what a command is about, and the experiments that words of it name.

    Such words are names, or globs of names: they begin with a group and a hyphen. selected: what it
    is about without any. named: whether there may be some. added_seeds: as `build_plan` takes them.
    FedatlasError if one matches nothing.
    """
    groups = {head.group for head in heads_in(config_folder, *projects)} if named else set()
    globs = [
        word
        for word in words
        if group_of(word) in groups.difference([word]) and not set("=/").intersection(word)
    ]
    # Of other experiments files may be asked for, or jobs.
    within = re.findall(r"experiments?[/=]([a-z0-9-]+)", " ".join(words))
    names = [*(globs or selected), *within]
    plan = build_plan(config_folder, *projects, names=names, added_seeds=added_seeds)
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
        """All results of every experiment."""
        return [file for name in self.names for file in experiment_files(self._plan, name)]

    def results_of(self, *groups: str) -> list[str]:
        """All results of the groups' experiments, and each group's verdicts."""
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
        files = (file for own in self.names for file in made_of_traces(self._plan, own))
        return [file for file in files if file.endswith(f"/{name}")]
