"""Federated finite sums whose columns are held by parties, update rules, and what they cost.

f(w) = 1/n Σ_i L(Σ_ℓ w_ℓ·x_{i,ℓ}, y_i) + weight · regulariser(w): samples count equally. Points are
(d,), the parties' blocks w_ℓ side by side.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np

from fedatlas.arithmetic.objectives import has_two_classes, norm, products, quality
from fedatlas.errors import FedatlasError
from fedatlas.federations.parts import FederatedEngine, Predicted
from fedatlas.schema.objectives import LinearObjective

if TYPE_CHECKING:  # the workflow imports algorithms when it is parsed: keep compilers out of that
    from fedatlas.federations.vertical.shards import PartySamples


Reference: TypeAlias = Literal["none", "snapshot", "table"]


@dataclass(frozen=True)
class BlockStep:
    """How a block moves along v_ℓ, in place of w_ℓ ← w_ℓ − γ v_ℓ: momentum, clipping, Adam, …

    move: a plain function move(w, v, memory, applied, numbers) of the method's file, which numba
        compiles. It changes w and memory in place and returns nothing. w, v (d_ℓ,): the block and
        its v_ℓ. memory (rows, d_ℓ): what the block remembers, zeros at first. applied: how many
        updates the block has had. numbers: those that are declared here, as an array.
    rows: of memory. numbers: hyper-parameters, such as (step_size, momentum).
    """

    move: Callable[..., None]
    rows: int = 0
    numbers: tuple[float, ...] = ()


@dataclass(frozen=True)
class UpdateRule:
    """w_ℓ ← w_ℓ − γ((ϑ − ϑ_ref) x_{i,ℓ} + mean_ℓ + ∇g(w_ℓ)), by one estimator for all methods.

    step_size: γ.
    reference: what ϑ_ref and mean are. `none`: both 0 (SGD). `snapshot`: ϑ of sample i at the last
        snapshot, and mean = 1/n Σ_j ϑ_j x_{j,ℓ} there (SVRG; its λ∇g terms at the snapshot cancel).
        `table`: ϑ of sample i when this party last used it, and the same mean over the party's
        table, which every update renews (SAGA).
    backward: whether ϑ goes to all parties; otherwise only the dominator updates its block.
    synchronous: whether the next samples are drawn only when every party has applied its updates.
    step: how a block moves along what stands in brackets; None: as written, w_ℓ − γ(…).
    """

    step_size: float
    reference: Reference = "none"
    backward: bool = True
    synchronous: bool = False
    step: BlockStep | None = None

    def __post_init__(self) -> None:
        if self.reference not in get_args(Reference):
            raise ValueError(
                f"UpdateRule's reference is '{self.reference}': use one of "
                f"{', '.join(get_args(Reference))}"
            )


class PartyProblem(FederatedEngine):
    """The oracle that vertical algorithms ask; what it costs is counted by the network.

    group: the parties, where they are processes.
    """

    group: Any

    def __init__(self, data: PartySamples, objective: LinearObjective) -> None:
        """FedatlasError if labels do not suit the loss."""
        from fedatlas.arithmetic.kernels.formulas import LinearModel

        self.rows, self.objective = data.train, objective
        self._model = LinearModel(data.train.features, data.train.label, objective)
        self._test = data.test
        self.dimension = self._model.dimension
        self.samples = len(data.train)
        self._has_classes = has_two_classes(objective, data.metadata, data.train, data.test)

    @property
    def smoothness(self) -> float:
        """Lipschitz constant of the gradient of every sample."""
        return self._model.smoothness

    def derivatives(self, margins: np.ndarray) -> np.ndarray:
        """ϑ_i = ∂L/∂z at the margins z_i of all samples, (n,); NaN where a margin is."""
        slopes = self._model.losses(margins)[1]
        # The compiled logistic loss bounds its exponent, and would take NaN for the bound.
        return np.where(np.isnan(margins), np.nan, slopes)

    def data_gradient(self, derivatives: np.ndarray) -> np.ndarray:
        """1/n Σ_i ϑ_i x_i, (d,): every party forms its own block of it."""
        return self._model.data_gradient(derivatives)

    def predicted(self, x: np.ndarray, rows: Literal["train", "test"] = "train") -> Predicted:
        """What x makes of all rows of one kind, in their order; not counted.

        FedatlasError if none are kept.
        """
        found = {"train": self.rows, "test": self._test}.get(rows)
        if found is None:
            raise FedatlasError(
                f"no {rows} rows are kept: parties have 'train' rows and, where the partition has "
                "a 'test', 'test' rows"
            )
        margins = products(found.features, x)
        right = ((margins > 0) == (found.label > 0)) & self._has_classes
        return Predicted(margins, found.label, right, np.array([0, len(found)]))

    def start(self, seed: int) -> np.ndarray:
        """Zeros, (d,)."""
        return np.zeros(self.dimension)

    def measure(self, x: np.ndarray) -> dict[str, float]:
        margins = self._model.margins(x)
        value, gradient = self._model.value_and_gradient(x, margins)
        measured = {"objective": value, "gradient_norm": norm(gradient)}
        classes, loss = self._has_classes, self.objective.loss
        measured |= quality("train", margins, self.rows.label, classes, loss)
        if self._test is not None:
            predicted = products(self._test.features, x)
            measured |= quality("test", predicted, self._test.label, classes, loss)
        return measured


_NUMBER_BYTES = 8


@dataclass
class PartyTotals:
    """Running totals of one seed; `vertical.network` says what is counted."""

    gradient_evaluations: int = 0  # derivatives ϑ
    iteration: int = 0  # dominated updates
    update_epoch: float = 0.0  # dominated updates per sample
    full_passes: int = 0
    block_updates: int = 0
    bytes_up: int = 0  # shares and masks towards dominators
    bytes_down: int = 0  # ϑ and indices from dominators
    messages: int = 0
    read_delay_mean: float = 0.0
    read_delay_max: float = 0.0
    update_delay_mean: float = 0.0
    update_delay_max: float = 0.0
    tau_1: float = 0.0  # in global iterations, as the next
    tau_2: float = 0.0

    def count_updates(self, updates: int, collaborators: int, backward: bool) -> None:
        """Count dominated updates. backward: whether collaborators are sent ϑ and update, too."""
        self.iteration += updates
        self.gradient_evaluations += updates
        self.bytes_up += updates * 2 * collaborators * _NUMBER_BYTES
        self.messages += updates * 2 * collaborators
        if backward:
            self.bytes_down += updates * collaborators * 2 * _NUMBER_BYTES
            self.messages += updates * collaborators

    def count_sums(self, samples: int, collaborators: int) -> None:
        """Count the shares of all samples, with which a full pass begins."""
        self.bytes_up += samples * 2 * collaborators * _NUMBER_BYTES
        self.messages += 2 * collaborators

    def count_full_pass(self, samples: int, told: int) -> None:
        """Count ϑ of all samples, with which it ends. told: parties that are sent them."""
        self.full_passes += 1
        self.gradient_evaluations += samples
        self.bytes_down += told * samples * _NUMBER_BYTES
        self.messages += told


@dataclass
class PartyCounters(PartyTotals):
    """Counters of a simulated network."""

    simulated_time: float = 0.0  # s
    eta_1: float = 0.0  # in global iterations
    mask_error: float = 0.0


@dataclass
class ProcessCounters(PartyTotals):
    """Counters of processes."""

    socket_bytes: int = 0
    elapsed_time: float = 0.0  # s
