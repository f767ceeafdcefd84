"""The suite: problems and methods that are declared once and make ordinary experiments.

`config/suite.yaml` and a project's `suite.yaml` declare them. A problem `quad` becomes the
experiment `suite-quad`. Its seeds are the problem's instances, its runs the methods it takes.
"""

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from fedatlas.errors import FedatlasError, similar
from fedatlas.schema.models import Model, read_yaml, validated

#: The file that declares them, and the group of their experiments.
SUITE_FILE, SUITE = "suite.yaml", "suite"
_OF_SMOOTHNESS = re.compile(r"([0-9.]+(?:e-?[0-9]+)?)([/*])L")
_DIGITS = 4  # of values in units of L or 1/L, which points of grids are named after


class SuiteMethod(Model):
    """A method and its tries, which are the same on every problem.

    Values may be in units of the problem's smoothness, "0.5/L" or "0.1*L", or numbers that the
    problem declares, such as "$batch".

    algorithm: a file of `fedatlas.algorithms`; by default the method's name.
    title: its name in figures; by default the method's title.
    hyper_parameters: values that all tries share.
    grid: the tries, like a run's grid; without it there is a single try, and no tuning.
    rounds_factor: how many times the problem's rounds the method runs. What a round is depends on
        the method; for asynchronous methods it is the answer of a single client.
    trackers: whether it tracks gradients, on the graph of the states.
    """

    algorithm: str | None = None
    title: str | None = None
    hyper_parameters: dict[str, Any] = Field(default={})
    grid: dict[str, list[Any]] = Field(default={})
    rounds_factor: PositiveInt = 1
    trackers: bool = False

    @property
    def tries(self) -> int:
        """How many points its grid has."""
        number = 1
        for values in self.grid.values():
            number *= len(values)
        return number


class SuiteProblem(Model):
    """A problem: data, who holds them, an objective, and numbers that methods need.

    title: its name in figures and tables.
    groups: features of the problem that challenge methods, such as `many_clients` or `few_bits`.
    takes: tables of methods that run on it.
    dataset, split, partition, network, graphs, objective, rounds, record_every: as in an
        experiment.
    measurement: what must reach the targets, and what chooses among tries.
    smoothness: L, the unit of steps; for networks a number in its place.
    constants: further known constants, for readers, such as `convexity`, μ.
    values: numbers that methods' hyper-parameters name, beside the suite's; `rounds` is one.
    targets: shares of the measurement at the start; by default the suite's.
    point_seconds: about how many seconds a try with all its instances trains on one core.
    """

    title: str
    groups: tuple[str, ...] = Field(min_length=1)
    takes: tuple[str, ...] = Field(min_length=1)
    dataset: str
    split: str = "train"
    partition: dict[str, Any]
    network: dict[str, Any] | None = None
    graphs: dict[str, Any] | None = None
    objective: dict[str, Any]
    rounds: PositiveInt
    record_every: PositiveInt | dict[NonNegativeInt, PositiveInt]
    measurement: str = "suboptimality"
    smoothness: PositiveFloat
    constants: dict[str, float] = Field(default={})
    values: dict[str, Any] = Field(default={})
    targets: tuple[PositiveFloat, ...] = ()
    point_seconds: PositiveFloat = 0.6


class Suite(Model):
    """All problems and methods.

    instances: seeds of every problem that are judged. tuning_instances: seeds on which tries are
        compared.
    targets: shares of the measurement at the start, such as 0.01.
    values: numbers that methods' hyper-parameters name; a problem may declare others.
    smoke: the problems on which continuous integration tests methods.
    methods: tables of methods by name; a method is in one table.
    problems: by name.
    """

    instances: tuple[NonNegativeInt, ...] = Field(min_length=1)
    tuning_instances: tuple[NonNegativeInt, ...] = Field(min_length=1)
    targets: tuple[PositiveFloat, ...] = Field(min_length=1)
    values: dict[str, Any] = Field(default={})
    smoke: tuple[str, ...] = ()
    methods: dict[str, dict[str, SuiteMethod]]
    problems: dict[str, SuiteProblem] = Field(min_length=1)

    @model_validator(mode="after")
    def _names_are_known(self) -> "Suite":
        for name, problem in self.problems.items():
            for table in problem.takes:
                if table not in self.methods:
                    raise ValueError(
                        f"problems.{name}.takes: '{table}' is no table of methods"
                        f"{similar(table, self.methods)}; there are {', '.join(self.methods)}"
                    )
        if unknown := [name for name in self.smoke if name not in self.problems]:
            raise ValueError(f"smoke: there is no problem '{unknown[0]}'")
        return self

    @property
    def every_method(self) -> dict[str, SuiteMethod]:
        """The methods of all tables, by name."""
        return {name: own for table in self.methods.values() for name, own in table.items()}

    def methods_of(self, problem: str) -> dict[str, SuiteMethod]:
        """The methods that run on a problem, by name."""
        takes = self.problems[problem].takes
        return {name: own for table in takes for name, own in self.methods[table].items()}

    def targets_of(self, problem: str) -> tuple[float, ...]:
        """Shares of the measurement at the start that count as reached, of a problem."""
        return self.problems[problem].targets or self.targets

    def one_try(self, method: str, values: Mapping[str, Any], smoothness: float) -> dict[str, Any]:
        """What a run states of a method: one try, the middle one of each hyper-parameter.

        values: numbers in place of the suite's. Empty where the suite does not know the method.
        """
        if (own := self.every_method.get(method)) is None:
            return {}
        numbers, place = {**self.values, **values}, f"method '{method}'"
        middle = {key: [tries[len(tries) // 2]] for key, tries in own.grid.items()}
        return {
            "hyper_parameters": _filled(own.hyper_parameters, numbers, smoothness, place),
            "grid": _filled(middle, numbers, smoothness, place),
        }

    def experiment(self, problem: str, methods: Collection[str] = ()) -> dict[str, Any]:
        """The experiment of a problem, as a file would state it.

        methods: those that are run, of all that the problem takes.
        """
        own = self.problems[problem]
        where = f"problems.{problem}"
        values = {**self.values, "rounds": own.rounds, **own.values}
        runs = {}
        for name, method in self.methods_of(problem).items():
            if methods and name not in methods:
                continue
            place = f"{where}: method '{name}'"
            run: dict[str, Any] = {
                "algorithm": method.algorithm or name,
                "hyper_parameters": _filled(method.hyper_parameters, values, own.smoothness, place),
                "grid": _filled(method.grid, values, own.smoothness, place),
            }
            if method.title:
                run["title"] = method.title
            if method.trackers and own.graphs:
                run["graphs"] = {**own.graphs, "trackers": own.graphs["states"]}
            if (factor := method.rounds_factor) > 1:
                run |= {"rounds": own.rounds * factor}
                run |= {"record_every": _stretched(own.record_every, factor)}
            runs[name] = run
        tuned = any(self.every_method[name].tries > 1 for name in runs)
        keys = ("dataset", "split", "partition", "network", "graphs", "objective", "rounds")
        stated = {key: value for key in keys if (value := getattr(own, key)) is not None}
        return {
            "paper": "ours",
            "title": own.title,
            "source": "ours, a problem of the suite",
            **stated,
            "record_every": own.record_every,
            "seeds": list(self.instances),
            **({"tuning_seeds": list(self.tuning_instances)} if tuned else {}),
            "point_seconds": own.point_seconds,
            "runs": runs,
            "selection": {"measurement": own.measurement},
            "figure": {"measurement": own.measurement, "points": "selected"},
        }


def _stretched(every: int | dict[int, int], factor: int) -> int | dict[int, int]:
    if isinstance(every, int):
        return every * factor
    return {begin * factor: spacing * factor for begin, spacing in every.items()}


def _filled(value: Any, values: Mapping[str, Any], smoothness: float, where: str) -> Any:
    """With the problem's numbers in place of what names them."""
    if isinstance(value, Mapping):
        return {key: _filled(item, values, smoothness, where) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, values, smoothness, where) for item in value]
    if not isinstance(value, str):
        return value
    if value.startswith("$"):
        if (name := value[1:]) not in values:
            raise FedatlasError(
                f"{where}: '{value}': the problem states no '{name}' under 'values'"
                f"{similar(name, values)}"
            )
        return values[name]
    if found := _OF_SMOOTHNESS.fullmatch(value):
        number = float(found[1])
        exact = number * smoothness if found[2] == "*" else number / smoothness
        return float(f"{exact:.{_DIGITS}g}")
    return value


def load_suite(*files: Path) -> Suite:
    """The suite that these files declare together: the first all of it, others add to it.

    Files after the first state `problems` and `methods` alone. FedatlasError names file and key.
    """
    whole: dict[str, Any] = {}
    for file in files:
        content = read_yaml(file)
        if not isinstance(content, dict):
            raise FedatlasError(f"{file}: must be a mapping of keys to values")
        if not whole:
            whole = content
            continue
        for key, entries in content.items():
            if key not in ("problems", "methods") or not isinstance(entries, dict):
                raise FedatlasError(f"{file}: key '{key}': a project adds problems and methods")
            _add(whole.setdefault(key, {}), entries, f"{file}: {key}", 2 - (key == "problems"))
    return validated(Suite, whole, " and ".join(map(str, files)))


def _add(known: dict[str, Any], entries: Mapping[str, Any], where: str, depth: int) -> None:
    """Add entries, `depth` levels down; FedatlasError for one that is there already."""
    for name, entry in entries.items():
        if name not in known:
            known[name] = entry
        elif depth > 1 and isinstance(entry, dict):
            _add(known[name], entry, f"{where}.{name}", depth - 1)
        else:
            raise FedatlasError(f"{where}.{name}: there is one of that name: rename it")
