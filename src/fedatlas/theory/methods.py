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

_OF_CLIENTS: dict[type, Callable[[Any, Constants, Course], list[Theorem]]] = {
    FedPage: horizontal.theorems_of_fedpage,
    Scaffold: horizontal.theorems_of_scaffold,
}
#: On strongly convex objectives, and on others.
_OF_PARTIES: dict[type, tuple[Callable[[Any, PartyConstants, Course], list[Theorem]], ...]] = {
    Vfb2Sgd: (vfb2_convex.theorem_1, vfb2_nonconvex.theorem_4),
    Vfb2Svrg: (vfb2_convex.theorem_2, vfb2_nonconvex.theorem_5),
    Vfb2Saga: (vfb2_convex.theorem_3, vfb2_nonconvex.theorem_6),
}


#: Constants of one paper's problem → its method, and what is known of it.
_OF_ONE: dict[type, tuple[type, Callable[[Any, Any, Course], list[Theorem]]]] = {
    AgentConstants: (DpGradientTracking, dp_gradient_tracking.theorems),
    TierConstants: (Tdcd, tdcd.theorems),
    MinMaxConstants: (Fmgda, fmgda.theorems),
}


def theorems_on(method: Any, constants: AnyConstants, course: Course) -> list[Theorem]:
    """The theorems on a run of a method; none on methods without any here."""
    if type(constants) in _OF_ONE:
        own, theorems = _OF_ONE[type(constants)]
        return theorems(method, constants, course) if isinstance(method, own) else []
    if isinstance(constants, Constants):
        of_clients = _OF_CLIENTS.get(type(method))
        return of_clients(method, constants, course) if of_clients else []
    if not isinstance(constants, PartyConstants) or type(method) not in _OF_PARTIES:
        return []
    convex, nonconvex = _OF_PARTIES[type(method)]
    return (nonconvex if constants.convexity is None else convex)(method, constants, course)
