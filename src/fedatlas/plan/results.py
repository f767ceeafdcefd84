"""Results of one experiment: its files, their inputs, and arguments of steps.

A step runs again when what it is told changes.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fedatlas.architectures import architecture_module
from fedatlas.extensions import CODE, code_names
from fedatlas.plan.build import Plan, validated_partitions
from fedatlas.plan.jobs import shards
from fedatlas.plan.places import RESULTS
from fedatlas.schema.claims import Claim
from fedatlas.schema.experiments import Experiment
from fedatlas.schema.objectives import LinearObjective
from fedatlas.schema.partitions import Partition
from fedatlas.schema.runs import RunSpec
from fedatlas.steps import STEPS, Step


def trace_files(specs: Iterable[RunSpec]) -> list[str]:
    """The traces of these points."""
    return [str(spec.trace_file(Path(RESULTS))) for spec in specs]


def traces(plan: Plan, experiment: str) -> list[str]:
    """All traces of an experiment, in the order of its file."""
    trained = plan.experiments[experiment].trained
    return trace_files(plan.runs_of(experiment) if trained else ())


def experiment_files(plan: Plan, name: str) -> list[str]:
    """All that is made of an experiment; its traces too, so that a lost one is made again."""
    return made_of_traces(plan, name) + traces(plan, name)


def made_of_traces(plan: Plan, name: str) -> list[str]:
    """All that is made of an experiment beside its traces."""
    files = [file.path for step in steps_of(plan, name) for file in step.files()]
    return [f"{RESULTS}/{path.format(experiment=name)}" for path in files]


def steps_of(plan: Plan, name: str) -> list[Step]:
    """The steps that an experiment asks for, beside training."""
    experiment = plan.experiments[name]
    steps = STEPS.values()
    return [step for step in steps if step.made_for and getattr(experiment, step.made_for)]


def tuning(plan: Plan, name: str) -> list[str]:
    """The selections of the experiments in which runs are tuned, each once."""
    experiment = plan.experiments[name]
    tuned = {run.tuned_in for run in experiment.runs.values() if run.tuned_in}
    found = sorted(tuned) if experiment.trained else []
    return [f"{RESULTS}/experiments/{other}/selection.json" for other in found]


def judged_file(plan: Plan, experiment: str, file: str) -> list[str]:
    """A file that claims of an experiment may be about, if it is made."""
    path = f"{RESULTS}/experiments/{experiment}/{file}"
    return [path] if path in made_of_traces(plan, experiment) else []


def judging_code(plan: Plan, experiment: str) -> list[str]:
    """The modules of the kinds of claims that an experiment states."""
    return _kinds(plan.experiments[experiment].claims)


def drawing_code(plan: Plan, experiment: str) -> list[str]:
    """The modules that draw an experiment's figure, and those of claims whose slopes it has."""
    shown = plan.experiments[experiment]
    return [type(shown.figure).__module__, *_kinds(shown.drawn_claims)]


def _kinds(claims: Iterable[Claim]) -> list[str]:
    """The modules that judge claims."""
    return sorted({module for claim in claims for module in claim.test.modules})


def first_shards(plan: Plan, name: str) -> list[str]:
    """The shards of an experiment's first trial."""
    experiment = plan.experiments[name]
    return _shards(experiment, [experiment.partition.of_seed(experiment.seeds[0])])


def seed_shards(plan: Plan, name: str) -> list[str]:
    """The shards of every partition that runs of an experiment have in their first trial."""
    partitions = [spec.partition.of_seed(spec.seeds[0]) for spec in plan.runs_of(name)]
    return _shards(plan.experiments[name], partitions)


def labels(plan: Plan, name: str) -> list[str]:
    """The shards with the labels of all trials that are judged."""
    every = (file for spec in plan.runs_of(name) for file in _labels(plan, name, spec).values())
    return list(dict.fromkeys(every))


def _labels(plan: Plan, name: str, spec: RunSpec) -> dict[int, str]:
    """By seed: the first file of a partition has labels."""
    cuts = {seed: spec.partition.of_seed(seed) for seed in plan.experiments[name].seeds}
    return {seed: shards(spec.dataset, spec.split, cut)[0] for seed, cut in cuts.items()}


def predictors_spec(plan: Plan, name: str) -> dict[str, Any]:
    """The labels of each run's trials, and the objective that it minimises."""
    runs = {
        spec.run: {
            "shards": {
                seed: file.removeprefix(f"{RESULTS}/shards/")
                for seed, file in _labels(plan, name, spec).items()
            },
            "objective": spec.objective.model_dump(mode="json"),
            "over_clients": spec.federation.mean_of_clients,
        }
        for spec in plan.runs_of(name)
    }
    return {"runs": runs}


def validated_shards(plan: Plan, name: str) -> list[str]:
    """The shards on which processes are compared with the simulated network."""
    experiment = plan.experiments[name]
    return _shards(experiment, validated_partitions(experiment))


def _shards(experiment: Experiment, partitions: Iterable[Partition]) -> list[str]:
    """Shards of an experiment's rows, each once."""
    cuts = (shards(experiment.dataset, experiment.split, each) for each in partitions)
    return list(dict.fromkeys(file for files in cuts for file in files))


def landscape_code(plan: Plan, experiment: str) -> list[str]:
    """The network whose loss surface is computed."""
    model = plan.experiments[experiment].objective.model_dump()["model"]
    return [architecture_module(model)]


def budgets_code(plan: Plan, experiment: str) -> list[str]:
    """The methods whose privacy budgets, or worst cases, are computed."""
    methods = sorted({spec.algorithm for spec in plan.runs_of(experiment)})
    return [f"fedatlas.algorithms.{name}" for name in methods]


def theory_code(plan: Plan, experiment: str) -> list[str]:
    """The methods of an experiment on which there are theorems, the modules with these, and losses
    of users' own.
    """
    methods = {spec.algorithm for spec in plan.runs_of(experiment)} & {*code_names("theorems")}
    found = [f"{CODE[kind]}.{name}" for name in sorted(methods) for kind in ("methods", "theorems")]
    return [*found, *objective_code(plan, experiment)]


def objective_code(plan: Plan, experiment: str) -> list[str]:
    """The modules of losses of users' own."""
    objectives = [spec.objective for spec in plan.runs_of(experiment)]
    linear = [one for one in objectives if isinstance(one, LinearObjective)]
    return sorted({module for one in linear for module in one.code})


def keys_spec(plan: Plan, name: str, *declared: str, **more: object) -> dict[str, Any]:
    """These keys of an experiment with their values, and more beside them."""
    return plan.experiments[name].model_dump(mode="json", include={*declared}) | more


def selection_spec(plan: Plan, name: str) -> dict[str, Any]:
    """How points are chosen, which runs are tuned elsewhere, and what a file says of all."""
    experiment = plan.experiments[name]
    heading = {"paper", "title", "source", "notes", "dataset", "runs_of"}
    said = experiment.model_dump(mode="json", include=heading, exclude_none=True)
    own = {"heading": said | {"experiment": name}, "titles": plan.run_titles(name)}
    return keys_spec(plan, name, "selection", tuned=tuned_runs(plan, name), **own)


def tuned_runs(plan: Plan, name: str) -> dict[str, Any]:
    """The runs that are tuned in another experiment, with that and the keys that they declare."""
    experiment = plan.experiments[name]
    return {
        run: {"experiment": each.tuned_in, "declared": [*each.hyper_parameters, *each.varied]}
        for run, each in experiment.runs.items()
        if each.tuned_in and experiment.trained
    }


def claims_spec(plan: Plan, name: str) -> dict[str, Any]:
    """Arguments that verdicts depend on besides traces and the selection."""
    tuned = tuned_runs(plan, name)
    return keys_spec(plan, name, "paper", "claims", "seeds_added", experiment=name, tuned=tuned)


def figure_spec(plan: Plan, name: str) -> dict[str, Any]:
    """Arguments that a figure depends on besides traces."""
    experiment = plan.experiments[name]
    drawn = [claim.model_dump(mode="json") for claim in experiment.drawn_claims]
    more = {"claims": drawn} if drawn else {}
    return titles_spec(plan, name) | keys_spec(plan, name, "figure", **more)


def graphs_spec(plan: Plan, name: str) -> dict[str, Any]:
    """Arguments that a drawing of graphs depends on."""
    return heading_spec(plan, name) | keys_spec(plan, name, "graphs", agents=plan.agents_of(name))


def privacy_spec(plan: Plan, name: str, study: str) -> dict[str, Any]:
    """What a study of the privacy of all runs depends on; study: its key in the experiment."""
    runs = [spec.model_dump(mode="json") for spec in plan.runs_of(name)]
    return keys_spec(plan, name, study, runs=runs)


def worst_cases_spec(plan: Plan, name: str) -> dict[str, Any]:
    """The runs that are certified, and which hyper-parameters are their steps."""
    runs = plan.experiments[name].runs
    steps = {run: each.varied for run, each in runs.items()}
    return privacy_spec(plan, name, "worst_cases") | {
        "titles": plan.run_titles(name), "steps": steps
    }  # fmt: skip


def validation_spec(plan: Plan, name: str) -> dict[str, Any]:
    """What the comparison of processes with the simulated network depends on besides shards."""
    experiment = plan.experiments[name]
    declared = experiment.validation
    assert declared is not None
    network = declared.network or experiment.network
    assert network is not None
    runs = declared.model_dump(mode="json", exclude={"parties", "active", "network"})
    objective = experiment.objective.model_dump(mode="json")
    network_keys = network.model_dump(mode="json")
    return {"validation": {"objective": objective, "network": network_keys, **runs}}


def titles_spec(plan: Plan, name: str) -> dict[str, Any]:
    """The texts of a study's figure."""
    return heading_spec(plan, name) | {"runs": plan.run_titles(name)}


def budgets_spec(plan: Plan, name: str) -> dict[str, Any]:
    """What a figure of budgets says, and the methods whose colours its runs have."""
    methods = {run: stated.algorithm for run, stated in plan.experiments[name].runs.items()}
    return titles_spec(plan, name) | {"methods": methods}


def heading_spec(plan: Plan, name: str) -> dict[str, Any]:
    """The heading of an experiment's figures."""
    experiment = plan.experiments[name]
    return {"title": f"{experiment.title} — {experiment.source}"}
