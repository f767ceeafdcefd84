"""An experiment's figure as data: its kind, whose module holds what it asks for and its drawing."""

import importlib
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cache
from typing import Any, Self, cast

from pydantic import ModelWrapValidatorHandler
from pydantic import model_validator as validator

from fedatlas.extensions import import_extension
from fedatlas.schema.models import Model, only_subclass
from fedatlas.schema.quantities import Measurement

#: The step by which methods are compared, as a figure's `hyper_parameter` or `rows`.
EFFECTIVE_STEP_SIZE = "effective_step_size"

_KINDS = "fedatlas.figures.kinds"  # a module each, named as the kind: adding one adds a kind


class Figure(Model, ABC):
    """What a kind of figure asks for, and its drawing.

    Raises, when a mapping is validated as a Figure, for a `kind` that no module has; without a kind
    it is `convergence`.

    kind: what is drawn; see its module in `fedatlas.figures.kinds`.
    """

    kind: str

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """What all runs must measure: by default the key `measurement`, if there is one."""
        measurement = getattr(self, "measurement", None)
        return () if measurement is None else (measurement,)

    @property
    def counted(self) -> tuple[str, ...]:
        """Costs of which each is counted by one run at least."""
        return ()

    @property
    def runs(self) -> tuple[str, ...]:
        """Runs that the figure names."""
        return ()

    @property
    def drawn_claims(self) -> tuple[str, ...]:
        """Ids of claims that it draws."""
        return ()

    @property
    def printed(self) -> Mapping[str, float]:
        """Numbers that the paper prints, by run."""
        return {}

    def check(self, experiment: Any) -> None:
        """Raise ValueError if the figure does not fit its `Experiment`."""

    @abstractmethod
    def compose(self, title: str, shown: Any) -> Any:
        """The figure of a `fedatlas.figures.style.Shown` as an object of matplotlib."""

    @classmethod
    def variant(cls, value: Any) -> type[Model]:
        """The model of a mapping's `kind`."""
        kind = value.get("kind", "convergence") if isinstance(value, Mapping) else None
        return _class_of(kind) if cls is Figure and kind in figure_kinds() else cls

    @validator(mode="wrap")
    @classmethod
    def _by_kind(cls, value: Any, build: ModelWrapValidatorHandler[Self]) -> Self:
        if cls is not Figure or isinstance(value, Figure):
            return build(value)
        model = cls.variant(value)
        if model is Figure:
            kind = value.get("kind") if isinstance(value, Mapping) else value
            raise ValueError(f"kind {kind!r}: must be one of {', '.join(figure_kinds())}")
        return cast(Self, model.model_validate(value))


@cache
def figure_kinds() -> tuple[str, ...]:
    """Names of all kinds of figures."""
    folder = importlib.import_module(_KINDS).__path__
    return tuple(sorted(module.name for module in pkgutil.iter_modules(folder)))


def figure_module(kind: str) -> str:
    """The module that holds the model and the drawing of a kind."""
    return f"{_KINDS}.{kind}"


@cache
def _class_of(kind: str) -> type[Figure]:
    return only_subclass(import_extension(figure_module(kind)), Figure)  # type: ignore[type-abstract]
