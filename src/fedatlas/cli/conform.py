"""Command: compare another implementation of a method with fedatlas's, round by round."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedatlas.cli.options import Configuration
from fedatlas.errors import FedatlasError, first_line, similar
from fedatlas.plain_text import say

if TYPE_CHECKING:
    from fedatlas.federations.algorithm import Algorithm
    from fedatlas.schema.runs import RunSpec

#: How many rounds are compared by default, and on which objective.
_ROUNDS, _OBJECTIVE = 20, "{name: logistic_l2, weight: 0.1}"


def conform(
    context: typer.Context,
    method: Annotated[
        str,
        typer.Argument(help="A method, on a generated problem, or a run: EXPERIMENT/RUN/POINT."),
    ],
    config: Configuration,
    theirs: Annotated[
        Path | None,
        typer.Argument(
            help="The other implementation: a Python file with start and step, or .npz of iterates."
        ),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Explain what the file gets and should return.")
    ] = False,
    hyper: Annotated[
        str | None, typer.Option(help="Hyper-parameters, as YAML; by default a try of the suite.")
    ] = None,
    objective: Annotated[
        str | None, typer.Option(help="Objective, as YAML; by default logistic_l2.")
    ] = None,
    clients: Annotated[int, typer.Option(min=1, help="Number of clients.")] = 7,
    rows: Annotated[
        int, typer.Option(min=1, help="Rows of all clients together; sizes of clients differ.")
    ] = 60,
    features: Annotated[int, typer.Option(min=1, help="The dimension d.")] = 5,
    graph: Annotated[
        str | None,
        typer.Option(
            help="For methods on graphs: a kind, such as ring, or YAML of one graph or of `graphs`."
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Seed of all draws; by default 0, or the run's first.")
    ] = None,
    rounds: Annotated[
        int | None,
        typer.Option(min=1, help="Rounds to compare; by default 20, or the run's if fewer."),
    ] = None,
    tolerance: Annotated[
        float,
        typer.Option(min=0, help="Allowed difference, relative to the norm; 1e-4 suits float32."),
    ] = 1e-9,
    export: Annotated[
        Path | None, typer.Option(help="Write the problem and all draws to this .npz.")
    ] = None,
    results: Annotated[Path, typer.Option(help="Results folder that holds a run's shards.")] = (
        Path("results")
    ),
) -> None:
    """Compare another implementation of a method with fedatlas's, and name the first deviation.

    Both get the same clients, rows and random numbers. Exit status: 1 if they deviate, else 0.
    """
    from fedatlas.conform.comparison import compare
    from fedatlas.conform.explained import explained
    from fedatlas.conform.ours import Ours

    if theirs is None and export is None and not explain:
        raise FedatlasError(
            "give the file of the other implementation, or --export FILE.npz; "
            f"`fedatlas conform {method} --explain` explains what that file has to compute"
        )
    if made := not re.search("[/-]", method):
        shape = clients, rows, features
        opened = _made(method, hyper, objective, shape, graph, seed or 0, rounds or _ROUNDS)
    else:
        for option in ("hyper", "objective", "clients", "rows", "features", "graph"):
            source = context.get_parameter_source(option)
            if source is not None and source.name != "DEFAULT":
                raise FedatlasError(
                    f"--{option}: {method} is a run that declares its own: remove the option"
                )
        opened = _declared(method, config, results)
    with opened as (spec, shards):
        if (rounds or 0) > spec.rounds:
            raise FedatlasError(
                f"--rounds {rounds}: {spec.name} has {spec.rounds} rounds; give at most that"
            )
        ours = Ours.of_run(spec, shards, spec.seeds[0] if seed is None else seed, drawn_start=made)
        many = rounds or min(_ROUNDS, spec.rounds)
        if explain:
            say(explained(ours, spec.algorithm, many))
        if export is not None:
            ours.export(many, export)
            say(f"{export}: the problem, and the draws of fedatlas's method in {many} rounds")
        if theirs is not None:
            found = compare(ours, theirs, many, tolerance)
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
        raise FedatlasError(f"{option}: '{given}' is not a mapping: write '{{key: value, …}}'")
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
    method: str, hyper: str | None, objective: str | None, shape: tuple[int, int, int],
    graph: str | None, seed: int, rounds: int,
) -> "Iterator[tuple[RunSpec, Path]]":  # fmt: skip
    """A problem of normal rows, in unequal numbers a client; shape: clients, rows and features."""
    import numpy as np

    from fedatlas.cli.suite import declared_suite
    from fedatlas.notebook import planned, share_out
    from fedatlas.schema.objectives import LinearObjective

    clients, rows, features = shape
    if rows < clients:
        raise FedatlasError(f"--rows {rows}: {clients} clients need a row each: give more rows")
    asked = _asked(method)
    kind = asked.federation
    if graph is not None and not kind.on_graphs:
        raise FedatlasError(
            f"--graph {graph}: {method} has a server and no graph: remove the option"
        )
    random, fewest = np.random.default_rng(seed), max(1, min(3, rows // clients))
    made = random.normal(size=(rows, features)), random.choice([-1.0, 1.0], size=rows)
    suite, some = declared_suite(), {"clients": clients, "batch": 2, "samples": fewest}
    some |= {"participants": min(3, clients), "candidates": min(5, clients)}
    some |= {"keep": min(2, features), "rounds": rounds}
    run: dict[str, Any] = {"algorithm": method, **suite.one_try(method, some, smoothness=1)}
    if hyper is None and "grid" not in run:
        required = [key for key, own in asked.model_fields.items() if own.is_required()]
        raise FedatlasError(
            f"--hyper: the suite has no tries of '{method}' to take as a default: give "
            f"{', '.join(required)}"
        )
    if hyper is not None:
        run |= {"hyper_parameters": _mapping("--hyper", hyper), "grid": {}}
    if kind.on_graphs:
        known = suite.every_method.get(method)
        run["graphs"] = _graphs(graph or "ring", trackers=known is not None and known.trackers)
    if asked.asynchronous:  # a network's times decide who answers when
        run["network"] = {"seconds_per_gradient": 0.01, "latency": 0.02, "spread": 0.4}
    chosen = _mapping("--objective", objective or _OBJECTIVE)
    if chosen.get("name") not in (names := LinearObjective.names()):
        raise FedatlasError(
            f"--objective: key 'name', value '{chosen.get('name')}': `conform` takes linear models "
            f"with a loss of fedatlas: one of {', '.join(names)}"
        )
    if objective is None and asked.composite:
        chosen["nonsmooth"] = {"name": "l1", "weight": 0.05}
    sizes = {"assignment": "power_law_sizes", "exponent": 0.7, "minimum": fewest}
    plan = planned(
        made, "fedatlas conform", title=method, runs={method: run}, objective=chosen,
        partition={"kind": "horizontal", "clients": clients, **sizes}, rounds=rounds,
        seeds=[seed], record_every=1, figure={"measurement": "objective"},
    )  # fmt: skip
    (spec,) = plan.runs.values()
    with TemporaryDirectory() as folder:
        share_out(plan, Path(folder), Path())
        yield spec, Path(folder)


def _asked(name: str) -> "type[Algorithm]":
    """The method; for an unknown one, FedatlasError names methods with a similar name or title."""
    from fedatlas.algorithms import algorithm_class, algorithm_names

    def is_taken(own: "type[Algorithm]") -> bool:
        return own.federation.mean_of_clients and not own.federation.min_max

    def words(text: str) -> str:
        return " ".join(re.split(r"[\s_-]+", text.casefold()))

    if ":" in name or name in algorithm_names():
        if is_taken(found := algorithm_class(name)):
            return found
        raise FedatlasError(
            f"{name}: `conform` compares methods around a server and on graphs that minimise; "
            f"this one has {found.federation.holders}"
        )
    known = {each: own for each in algorithm_names() if is_taken(own := algorithm_class(each))}
    matching = [
        each for each, own in known.items() if words(name) in words(f"{own.title} {own.__doc__}")
    ]
    described = f"; methods described so: {', '.join(matching)}" if matching else ""
    raise FedatlasError(
        f"unknown method '{name}'{similar(name, known)}{described}; `conform` takes "
        f"{', '.join(known)}"
    )


def _graphs(stated: str, *, trackers: bool) -> dict[str, Any]:
    """The graphs as an experiment declares them; a kind alone makes all, with suitable weights."""
    own = {"kind": stated}
    if stated.lstrip().startswith("{") and "kind" not in (own := _mapping("--graph", stated)):
        return own
    undirected = own["kind"] in ("ring", "star", "complete")
    if own["kind"] != "edges":
        own = {"weights": "metropolis" if undirected else "sent", **own}
    return {"states": own, "trackers": own} if trackers else {"states": own}
