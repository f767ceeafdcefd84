"""Command: another implementation of a method beside ours, round by round."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedatlas.cli.options import Configuration
from fedatlas.errors import FedatlasError, first_line
from fedatlas.plain_text import say

if TYPE_CHECKING:
    from fedatlas.schema.runs import RunSpec


def conform(
    method: Annotated[
        str, typer.Argument(help="A method, on a made problem, or a run: EXPERIMENT/RUN/POINT.")
    ],
    config: Configuration,
    theirs: Annotated[
        Path | None,
        typer.Argument(help="A Python file with start and step, or .npz of iterates by name."),
    ] = None,
    hyper: Annotated[str, typer.Option(help="Hyper-parameters of a made problem, as YAML.")] = "{}",
    objective: Annotated[str, typer.Option(help="The same of its objective.")] = (
        "{name: logistic_l2, weight: 0.1}"
    ),
    clients: Annotated[int, typer.Option(min=1, help="Of a made problem.")] = 7,
    rows: Annotated[int, typer.Option(min=1, help="Of all its clients, who differ.")] = 60,
    features: Annotated[int, typer.Option(min=1, help="Its d.")] = 5,
    graph: Annotated[str, typer.Option(help="Of methods on graphs, with Metropolis weights.")] = (
        "ring"
    ),
    seed: Annotated[
        int | None, typer.Option(min=0, help="Of all that is drawn; 0, or the run's first.")
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="How many are compared.")] = 20,
    tolerance: Annotated[
        float, typer.Option(min=0, help="Of a quantity's norm; 1e-4 suits float32.")
    ] = 1e-9,
    export: Annotated[
        Path | None, typer.Option(help="Write the problem and all draws to this .npz.")
    ] = None,
    results: Annotated[Path, typer.Option(help="Results folder, with a run's shards.")] = (
        Path("results")
    ),
) -> None:
    """Compare another implementation of a method with ours, and name where it first deviates.

    Status 1 where it does. Both take the same clients, rows and random numbers: those of ours.
    """
    from fedatlas.conform.comparison import compare
    from fedatlas.conform.ours import Ours

    if theirs is None and export is None:
        raise FedatlasError("give the file of the other implementation, or --export FILE.npz")
    if made := "/" not in method:
        stated = _mapping("--hyper", hyper), _mapping("--objective", objective)
        opened = _made(method, *stated, clients, (rows, features), graph, seed or 0, rounds)
    else:
        opened = _declared(method, config, results)
    with opened as (spec, shards):
        ours = Ours.of_run(spec, shards, spec.seeds[0] if seed is None else seed, drawn_start=made)
        if export is not None:
            ours.export(rounds, export)
            say(f"{export}: the problem, and what ours draws in {rounds} rounds")
        if theirs is not None:
            found = compare(ours, theirs, rounds, tolerance)
            say(str(found))
            if found.first:
                raise typer.Exit(1)


def _mapping(option: str, given: str) -> dict[str, Any]:
    import yaml

    try:
        found = yaml.safe_load(given)
    except yaml.YAMLError as error:
        raise FedatlasError(f"{option}: cannot be read as YAML: {first_line(error)}") from error
    if not isinstance(found, dict):
        raise FedatlasError(f"{option}: '{given}' is no mapping: write '{{key: value, …}}'")
    return found


@contextmanager
def _declared(name: str, config: Path, results: Path) -> "Iterator[tuple[RunSpec, Path]]":
    from fedatlas.cli.looking import run_named

    spec = run_named(name, config)
    shards = results / "shards" / spec.dataset / spec.split
    if not shards.is_dir():
        raise FedatlasError(f"{shards}: no such folder: `fedatlas run {spec.experiment}` makes it")
    yield spec, shards


@contextmanager
def _made(
    method: str, hyper: dict[str, Any], objective: dict[str, Any], clients: int,
    shape: tuple[int, int], graph: str, seed: int, rounds: int,
) -> "Iterator[tuple[RunSpec, Path]]":  # fmt: skip
    """A problem of normal rows, shared out unequally."""
    import numpy as np

    from fedatlas.algorithms import algorithm_class
    from fedatlas.notebook import planned, share_out

    random, fewest = np.random.default_rng(seed), min(3, shape[0] // clients)
    made = random.normal(size=shape), random.choice([-1.0, 1.0], size=shape[0])
    asked = algorithm_class(method)
    kind = asked.federation
    if not kind.mean_of_clients or kind.min_max:
        raise FedatlasError(
            f"{method}: `conform` compares methods around a server and on graphs that minimise; "
            f"this one has {kind.holders}"
        )
    graphs = {"states": {"kind": graph, "weights": "metropolis"}} if kind.on_graphs else None
    run = {"algorithm": method, "hyper_parameters": hyper, "graphs": graphs}
    if asked.asynchronous:  # who answers when follows from a network
        run["network"] = {"seconds_per_gradient": 0.01, "latency": 0.02, "spread": 0.4}
    sizes = {"assignment": "power_law_sizes", "exponent": 0.7, "minimum": max(fewest, 1)}
    plan = planned(
        made, "fedatlas conform", title=method, runs={method: run}, objective=objective,
        partition={"kind": "horizontal", "clients": clients, **sizes}, rounds=rounds,
        seeds=[seed], record_every=1, figure={"measurement": "objective"},
    )  # fmt: skip
    (spec,) = plan.runs.values()
    with TemporaryDirectory() as folder:
        share_out(plan, Path(folder), Path())
        yield spec, Path(folder)
