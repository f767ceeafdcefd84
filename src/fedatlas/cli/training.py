"""Commands: shards to traces."""

import logging
from pathlib import Path
from typing import Annotated, Any

import typer

from fedatlas.cli.options import (
    Configuration,
    ObjectiveSpecification,
    Output,
    Specification,
    json_with,
)
from fedatlas.errors import FedatlasError, similar
from fedatlas.plain_text import say
from fedatlas.projects import projects
from fedatlas.schema.config import DEVICE_VARIABLE, SEEDS_VARIABLE
from fedatlas.schema.models import read_json, validated

log = logging.getLogger(__name__)

# What training reads, below the folder of results.
_INPUTS = ("code/*.txt", "shards/*/*/*/*.json", "optima/*/*/*/*.json", "experiments/*/*.json")

Device = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.", envvar=DEVICE_VARIABLE)]
CheckpointEvery = Annotated[
    float, typer.Option(help="Seconds between checkpoints.", envvar="FEDATLAS_CHECKPOINT_EVERY")
]


def spec(
    name: Annotated[
        str, typer.Argument(help="EXPERIMENT/RUN/POINT, as traces are filed; or EXPERIMENT.")
    ],
    config: Configuration,
) -> None:
    """Print a run's specification for `train --spec`, or what an experiment's file expands to."""
    from fedatlas.files import canonical_json
    from fedatlas.plan.build import build_plan, heads_in
    from fedatlas.schema.experiment_files import read_experiments
    from fedatlas.schema.models import as_yaml

    experiment = name.partition("/")[0]
    folders = (folder / "experiments" for folder in (config, *projects()))
    experiments = read_experiments(*folders, names=[experiment])
    if experiment not in experiments:
        known = [head.name for head in heads_in(config, *projects())]
        raise FedatlasError(f"there is no experiment '{experiment}'{similar(experiment, known)}")
    if name == experiment:
        where, content, _ = experiments[name]
        say(f"# {where}\n{as_yaml(content)}".rstrip())
        return
    plan = build_plan(config, *projects(), names=[experiment])
    runs = {run.name: run for run in plan.runs.values()}
    if name not in runs:
        raise FedatlasError(f"there is no run '{name}'{similar(name, runs)}")
    say(canonical_json(runs[name].model_dump(mode="json")))


def optimum(
    shards: Annotated[list[Path], typer.Argument(help="Files of all parties, in order.")],
    spec: ObjectiveSpecification,
    output: Output,
) -> None:
    """Find an objective's optimum on pooled training rows."""
    from fedatlas.federations.vertical.shards import read_party_shards
    from fedatlas.schema.objectives import LinearObjective
    from fedatlas.training.optimum import write_optimum
    from fedatlas.training.solver import solve

    objective = validated(LinearObjective, spec, "--spec")
    _, found = solve(read_party_shards(shards).train, objective)
    write_optimum(found, output)
    log.info("%s", found)


def train(
    spec: Specification,
    shards: Annotated[Path, typer.Option(help="Folder of the split's partitions.")],
    output: Output,
    optima: Annotated[
        Path | None, typer.Option(help="Folder of the split's optima, if f* is needed.")
    ] = None,
    tuning: Annotated[
        Path | None,
        typer.Option(help="Selection record of the experiment in which the run is tuned."),
    ] = None,
    device: Device = "auto",
    seeds: Annotated[
        Path | None, typer.Option(help="Folder of results of seeds and of checkpoints.")
    ] = None,
    checkpoint_every: CheckpointEvery = 60.0,
) -> None:
    """Rehearse the run's method, train the run's seeds that have no result, write its trace."""
    from fedatlas.schema.runs import RunSpec
    from fedatlas.training.failing import explaining_memory, naming_run
    from fedatlas.training.loop import train as train_run
    from fedatlas.training.rehearsal import rehearse
    from fedatlas.training.seeds import SeedPolicy

    run = validated(RunSpec, spec, "--spec")
    if (tuning is None) != (run.tuned_in is None):
        raise FedatlasError(
            f"{run.name}: is tuned in {run.tuned_in or 'no other experiment'}: "
            f"{'remove' if tuning else 'give'} --tuning"
        )
    if tuning is not None:
        run = run.tuned(read_json(tuning))
    policy = SeedPolicy(seeds, checkpoint_every) if seeds else None
    with naming_run(run.name):
        rehearse(run, shards)
        with explaining_memory(run.name, device):
            train_run(run, shards, output, optima=optima, device=device, seeds=policy)


def train_points(
    spec: Annotated[Any, json_with("shared", "points", what="Points of an experiment, as JSON")],
    results: Annotated[Path, typer.Option(help="Results folder.")],
    seeds: Annotated[
        Path | None,
        typer.Option(
            help="Folder of results of seeds and of checkpoints; RESULTS/seeds without it.",
            envvar=SEEDS_VARIABLE,
        ),
    ] = None,
    device: Device = "auto",
    checkpoint_every: CheckpointEvery = 60.0,
) -> None:
    """Train several points in one process; seeds that have results are not trained again."""
    from fedatlas.files import date_to_now
    from fedatlas.schema.runs import Points
    from fedatlas.training.points import train_points as train_all

    points = validated(Points, spec, "--spec")
    kept = seeds or results / "seeds"
    train_all(points.specs, results, kept, device=device, checkpoint_every=checkpoint_every)
    # The clock may have been set back meanwhile.
    date_to_now(file for pattern in _INPUTS for file in results.glob(pattern))


COMMANDS = (optimum, train, train_points)
