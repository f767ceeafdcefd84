"""Which methods have theorems."""

from collections.abc import Callable
from typing import Any

from fedatlas.algorithms.fedpage import FedPage
from fedatlas.algorithms.scaffold import Scaffold
from fedatlas.theory import fedpage, scaffold
from fedatlas.theory.constants import Constants
from fedatlas.theory.theorems import Theorem

_THEORIES: dict[type, Callable[[Any, Constants], list[Theorem]]] = {
    FedPage: fedpage.theorems,
    Scaffold: scaffold.theorems,
}


def theorems_on(method: Any, constants: Constants) -> list[Theorem]:
    """The theorems on a method with its hyper-parameters; none on methods without any here."""
    theory = _THEORIES.get(type(method))
    return theory(method, constants) if theory else []
