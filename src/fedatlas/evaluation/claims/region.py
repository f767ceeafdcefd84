"""Claims about part of a map."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal, Self

from pydantic import Field, SerializeAsAny, model_validator

from fedatlas.evaluation.levels import Trace
from fedatlas.evaluation.results import Results, judged
from fedatlas.evaluation.slopes import Line
from fedatlas.schema.claims import CaseOutcome, ClaimTest
from fedatlas.schema.experiments import Experiment


class RegionTest(ClaimTest):
    """A claim about part of a map: another test in each of its cells.

    Each cell is a case. The claim has the outcome of its worst cell; its evidence counts the cells
    of each outcome. Keys that all cells share are declared once, in `test`.

    cells: name of a cell → the keys that its test declares beside `test`.
    """

    kind: Literal["region"]
    cells: dict[str, SerializeAsAny[ClaimTest]] = Field(min_length=2)

    @model_validator(mode="before")
    @classmethod
    def _cells_share_a_test(cls, value: Any) -> Any:
        if not isinstance(value, Mapping) or "test" not in value:
            return value
        shared, cells = value["test"], value.get("cells")
        if not isinstance(shared, Mapping) or not isinstance(cells, Mapping):
            raise ValueError("'test' states what 'cells', a mapping of names to tests, share")
        whole = {
            name: {**shared, **cell} if isinstance(cell, Mapping) else cell
            for name, cell in cells.items()
        }
        return {key: of for key, of in value.items() if key != "test"} | {"cells": whole}

    @model_validator(mode="after")
    def _cells_have_one_case(self) -> Self:
        nested = [name for name, test in self.cells.items() if isinstance(test, RegionTest)]
        if nested:
            raise ValueError(f"cells: '{nested[0]}' is a region itself")
        return self

    def _of_cells(self, key: str) -> tuple[str, ...]:
        """What the tests of cells have under a name, each once."""
        named = (one for test in self.cells.values() for one in getattr(test, key))
        return tuple(dict.fromkeys(named))

    @property
    def runs(self) -> tuple[str, ...]:
        return self._of_cells("runs")

    @property
    def modules(self) -> tuple[str, ...]:
        return (*super().modules, *sorted(self._of_cells("modules")))

    @property
    def measured(self) -> tuple[str, ...]:
        return self._of_cells("measured")

    @property
    def counted(self) -> tuple[str, ...]:
        return self._of_cells("counted")

    @property
    def has_slopes(self) -> bool:
        return all(test.has_slopes for test in self.cells.values())

    @property
    def of_choice(self) -> bool:
        return any(test.of_choice for test in self.cells.values())

    @property
    def tuned_runs(self) -> tuple[str, ...]:
        return ()  # each cell has its own

    def check(self, experiment: Experiment) -> None:
        for name, test in self.cells.items():
            try:
                test.check(experiment)
            except ValueError as error:
                raise ValueError(f"cell '{name}': {error}") from None

    def lines(self, selected: Callable[..., list[Trace]]) -> Iterator[Line]:
        for name, test in self.cells.items():
            for line in test.lines(selected):
                yield replace(line, label=f"{name}, {line.label}" if line.label else name)

    def judge(self, results: Results) -> Iterator[CaseOutcome]:
        for name, test in self.cells.items():
            for one in judged(test, results):
                yield replace(one, case=f"{name}, {one.case}" if one.case else name)
