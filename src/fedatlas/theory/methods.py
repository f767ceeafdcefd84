"""Which methods have theorems."""

from collections.abc import Callable
from typing import Any, TypeAlias

from fedatlas.algorithms.dp_gradient_tracking import DpGradientTracking
from fedatlas.algorithms.fedpage import FedPage
from fedatlas.algorithms.fmgda import Fmgda
from fedatlas.algorithms.scaffold import Scaffold
from fedatlas.algorithms.tdcd import Tdcd
from fedatlas.algorithms.vfb2_saga import Vfb2Saga
from fedatlas.algorithms.vfb2_sgd import Vfb2Sgd
from fedatlas.algorithms.vfb2_svrg import Vfb2Svrg
from fedatlas.theory import (
    dp_gradient_tracking,
    fmgda,
    horizontal,
    tdcd,
    vfb2_convex,
    vfb2_nonconvex,
)
from fedatlas.theory.constants import Constants, PartyConstants
from fedatlas.theory.dp_gradient_tracking import AgentConstants
from fedatlas.theory.fmgda import MinMaxConstants
from fedatlas.theory.tdcd import TierConstants
from fedatlas.theory.theorems import Course, Theorem

#: All that theorems ask of a problem.
AnyConstants: TypeAlias = (
    Constants | PartyConstants | AgentConstants | TierConstants | MinMaxConstants
)


def _by_convexity(
    convex: Callable[[Any, PartyConstants, Course], list[Theorem]],
    nonconvex: Callable[[Any, PartyConstants, Course], list[Theorem]],
) -> Callable[[Any, PartyConstants, Course], list[Theorem]]:
    return lambda method, constants, course: (nonconvex if constants.convexity is None else convex)(
        method, constants, course
    )


#: A method → what its theorems know of a problem, and they, by what they ask for.
_THEOREMS: dict[type, tuple[type, Callable[[Any, Any, Course], list[Theorem]]]] = {
    FedPage: (Constants, horizontal.theorems_of_fedpage),
    Scaffold: (Constants, horizontal.theorems_of_scaffold),
    Vfb2Sgd: (PartyConstants, _by_convexity(vfb2_convex.theorem_1, vfb2_nonconvex.theorem_4)),
    Vfb2Svrg: (PartyConstants, _by_convexity(vfb2_convex.theorem_2, vfb2_nonconvex.theorem_5)),
    Vfb2Saga: (PartyConstants, _by_convexity(vfb2_convex.theorem_3, vfb2_nonconvex.theorem_6)),
    DpGradientTracking: (AgentConstants, dp_gradient_tracking.theorems),
    Tdcd: (TierConstants, tdcd.theorems),
    Fmgda: (MinMaxConstants, fmgda.theorems),
}


def theorems_on(method: Any, constants: AnyConstants, course: Course) -> list[Theorem]:
    """The theorems on a run of a method; none on methods without any here."""
    known, theorems = _THEOREMS.get(type(method), (type(None), None))
    if theorems is None or not isinstance(constants, known):
        return []
    return theorems(method, constants, course)
