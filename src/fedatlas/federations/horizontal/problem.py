"""Federated finite sums: N clients hold disjoint samples, f(x) = Σ_i p_i f_i(x).

f_i(x) is the mean loss of client i's samples: of a linear model 1/M_i Σ_j loss(a_ijᵀx, b_ij) +
weight · regulariser(x), or of a network with parameters x.

By default clients count equally, p_i = 1/N, as in FedPAGE eq. (1); where all hold equally many
samples this is the mean over samples, as with p_i = M_i/M it always is. Points are (d,) or, one per
client, (S, d); gradients are (S, d), the sampled clients being the leading axis. Where (S, d)
numbers are too many to hold at once they are ChunkedRows, which come into being a chunk of clients
at a time, when they are summed.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from fedatlas.arithmetic.client_rows import ChunkedRows, ClientRows, rows_of
from fedatlas.arithmetic.minibatches import Minibatches, draw, draw_epochs
from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.arithmetic.samples import Clipping
from fedatlas.federations.parts import ClientEngine, Counters, Load, Predicted
from fedatlas.schema.objectives import ClientWeights

if TYPE_CHECKING:  # the workflow imports algorithms when it is parsed: keep libraries out of that
    from fedatlas.federations.shards import ClientSamples


#: Which samples.
Rows: TypeAlias = Literal["train", "test", "validation"]


def no_rows(rows: Rows) -> str:
    """What errors say of rows that nobody kept."""
    return f"no {rows} rows are kept: give the partition a '{rows}'"


class HorizontalProblem(ClientEngine):
    """The counting oracle that algorithms ask; a subclass computes.

    dimension: d. itemsize: bytes of a number of x.
    numbers_at_once: the largest (S, d) that is computed as a whole. FedPAGE's round holds up to ten
    of them.
    """

    itemsize: int = 8
    numbers_at_once: int = 2**23  # 64 MiB: less gives a GPU too little to do at once

    dimension: int

    def __init__(self, data: ClientSamples, weights: ClientWeights) -> None:
        """weights: how clients count in f."""
        from fedatlas.arithmetic.kernels.drawing import COMPILED
        from fedatlas.federations.shards import client_shares

        super().__init__(data, Counters(), COMPILED)
        sizes = np.diff(data.offsets)
        self._loads: dict[Any, Load] = {}
        #: p, (N,); None where all are 1/N.
        self._shares = None if weights == "equal" else client_shares(sizes, weights)

    def mean(self, rows: Any, clients: np.ndarray) -> Any:
        """An estimate of Σ_i p_i row_i by the rows (S, d) of these clients, (d,).

        N/S Σ_{i∈S} p_i row_i, which is unbiased where clients are sampled uniformly, and exact of
        all: with p_i = 1/N the mean over S. McMahan et al. divide by Σ_{i∈S} p_i instead. With few
        clients of unequal weights that is biased towards 1/N, and methods then minimise another
        function than the one that is measured: with S = 1 no weight counts at all. The mean
        of nobody is 0.
        """
        if self._shares is None:
            return rows.sum(0) / max(len(clients), 1)
        return self.clients / max(len(clients), 1) * self.part_of_mean(rows, clients)

    def part_of_mean(self, rows: Any, clients: np.ndarray) -> Any:
        """Σ_{i∈S} p_i row_i, (d,): what changes of these clients' rows change of the whole mean."""
        if self._shares is None:
            return rows.sum(0) / self.clients
        return (self.array(self._shares[clients])[:, None] * rows).sum(0)

    def load(
        self, *gradients: tuple[int | None, int], down: float = 1, up: float = 1, trips: int = 1
    ) -> Load:
        """What a client does for one answer, as `network.participants` is told.

        gradients: (size, times): so many gradients over minibatches of a size, None: of all local
        samples. down, up: models that the client is sent, and sends; parts where compressed.
        trips: how many times it is sent something and answers.
        """
        key = gradients, down, up, trips
        if key not in self._loads:
            held, model = np.diff(self._offsets), self.dimension * self.itemsize
            each = [
                times * (held if size is None else np.minimum(held, size))
                for size, times in gradients
            ]
            self._loads[key] = Load(np.sum(each, axis=0), down * model, up * model, trips)
        return self._loads[key]

    @abstractmethod
    def predicted(self, x: Any, rows: Rows = "train") -> Predicted:
        """What x makes of all samples of one kind; not counted.

        FedatlasError if none are kept.
        """

    @abstractmethod
    def zeros(self, *shape: int) -> Any:
        """Zeros, (d,) by default."""

    def client_zeros(self) -> ClientRows:
        """A row of zeros on every client."""
        return ClientRows(self.zeros(self.clients, self.dimension))

    def minibatches(
        self,
        random: RoundRandom,
        clients: np.ndarray,
        size: int | None,
        steps: int | np.ndarray = 1,
    ) -> Minibatches:
        """Draw, for each client and step, `size` distinct samples, or all; see `ClientEngine`.

        steps: of all clients, or (S,) of each; those with fewer then finish early.
        """
        if isinstance(steps, np.ndarray):
            return self._drawn(random, clients, size, int(steps.max())).by_client(steps)
        return self._drawn(random, clients, size, steps)

    def epochs(
        self, random: RoundRandom, clients: np.ndarray, size: int | None, epochs: int
    ) -> Minibatches:
        """Draw passes over all local samples, shuffled anew in each, in minibatches of `size`.

        The last of a pass has what is left. Clients with fewer samples finish earlier.
        """
        return draw_epochs(self._drawing, random, self._offsets, clients, size, epochs)

    def pooled_minibatches(
        self, random: RoundRandom, size: int | None, steps: int = 1
    ) -> Minibatches:
        """As `minibatches`, of one client that holds all samples: for controls, see `federated`."""
        everyone = np.array([0, self.samples])
        return draw(self._drawing, random, everyone, np.zeros(1, np.int64), size, steps)

    def gradient(self, x: Any, batch: Minibatches, clipping: Clipping | None = None) -> Any:
        """∇f_i over each client's minibatch, at x (d,) or at a point per client (S, d).

        batch: of one step; `.at(step)` of one that was drawn for several. clipping: of the gradient
        of every sample's loss, before the mean is taken; a regulariser's depends on no sample, and
        is not clipped.
        """
        batch.require_one_step("problem.gradient")
        self._count(batch)
        if clipping is None:
            return self._by_clients(self.client_gradients, x, batch=batch)
        return self._by_clients(
            lambda x, batch: self.clipped_gradients(x, batch, clipping), x, batch=batch
        )

    @abstractmethod
    def client_gradients(self, x: Any, batch: Minibatches) -> Any:
        """As `gradient`, all at once and not counted."""

    @abstractmethod
    def clipped_gradients(self, x: Any, batch: Minibatches, clipping: Clipping) -> Any:
        """The same, every sample's gradient clipped first."""

    def losses(self, x: Any, clients: np.ndarray) -> Any:
        """f_i(x) of these clients, over all that each holds, (S, 1); x: (d,).

        A sample's loss counts as a gradient, and is no step.
        """
        sizes = np.diff(self._offsets)[clients]
        batch = Minibatches.of_first_rows(self._offsets[clients], sizes)
        self._counters.count_gradients(batch)
        return self._client_losses(x, batch)[:, None]

    @abstractmethod
    def _client_losses(self, x: Any, batch: Minibatches) -> Any:
        """(S,), of minibatches of successive rows."""

    def gradient_difference(self, x: Any, previous: Any, batch: Minibatches) -> Any:
        """∇f_i(x) − ∇f_i(previous), both over the same minibatch of one step, (S, d)."""
        batch.require_one_step("problem.gradient_difference")
        self._count(batch, points=2)
        gradients = self.client_gradients
        return self._by_clients(
            lambda x, previous, batch: gradients(x, batch) - gradients(previous, batch),
            x, previous, batch=batch,
        )  # fmt: skip

    def local_sgd(
        self,
        x: Any,
        batch: Minibatches,
        step_size: float,
        correction: Any = None,
        proximal_weight: float = 0.0,
    ) -> Any:
        """From y = x, `batch.steps` steps y ← y − η(∇f_i,B(y) + correction + μ(y − x)); final y.

        (S, d). correction: (S, d), constant over the steps, or None. proximal_weight: μ, as of
        FedProx.
        """
        self._count(batch)
        steps = self._local_sgd
        return self._by_clients(
            lambda x, correction, batch: steps(x, batch, step_size, correction, proximal_weight),
            x, correction, batch=batch,
        )  # fmt: skip

    def _local_sgd(
        self, x: Any, batch: Minibatches, step_size: float, correction: Any, proximal_weight: float
    ) -> Any:
        y = x
        for step in range(batch.steps):
            direction = self.client_gradients(y, batch.at(step))
            if correction is not None:
                direction = direction + correction
            if proximal_weight:
                direction = direction + proximal_weight * (y - x)
            y = self.moved(y, y - step_size * direction, batch.at(step))
        return y

    def prox(self, v: Any, step: float) -> Any:
        """argmin_x ψ(x) + ‖x − v‖²/(2 step) of v (d,), or of every row (S, d).

        ψ is the objective's `nonsmooth` term; without one this is v.
        """
        return v

    def steps_taken(self, batch: Minibatches) -> Any:
        """K where all clients take all steps, or else a column (S, 1) of each one's own K_i."""
        if batch.counts is None:
            return batch.steps
        return self.array(batch.steps_of_clients.astype(float))[:, None]

    def moved(self, y: Any, stepped: Any, batch: Minibatches) -> Any:
        """`stepped` (S, d) of the clients that take the step of `batch`, y of those that finished.

        For loops of methods' own, where clients take different numbers of steps.
        """
        batch.require_one_step("problem.moved")
        if batch.counts is None:
            return stepped

        def of_clients(y: Any, stepped: Any, batch: Minibatches) -> Any:
            found, finished = stepped + 0.0, np.flatnonzero(batch.sizes == 0)
            found[finished] = y[finished] if y.ndim == 2 else y
            return found

        return self._by_clients(of_clients, y, stepped, batch=batch)

    def local_recursive_steps(
        self, y: Any, previous: Any, estimate: Any, batch: Minibatches, step_size: float
    ) -> Any:
        """`batch.steps` steps g ← ∇f_i,B(y) − ∇f_i,B(y₋) + g, (y₋, y) ← (y, y − ηg); final y.

        y, estimate: (S, d); previous, the y₋ of the first step: (d,) or (S, d).
        """
        self._count(batch, points=2)
        steps = self._local_recursive_steps
        return self._by_clients(
            lambda y, previous, estimate, batch: steps(y, previous, estimate, batch, step_size),
            y, previous, estimate, batch=batch,
        )  # fmt: skip

    def _local_recursive_steps(
        self, y: Any, previous: Any, estimate: Any, batch: Minibatches, step_size: float
    ) -> Any:
        for step in range(batch.steps):
            now = batch.at(step)
            change = self.client_gradients(y, now) - self.client_gradients(previous, now)
            estimate = change + estimate
            # Those that have finished do not use their estimate any more.
            previous, y = y, self.moved(y, y - step_size * estimate, now)
        return y

    def _by_clients(self, compute: Callable[..., Any], *arguments: Any, batch: Minibatches) -> Any:
        """compute(*arguments, batch), (S, d), or the same in chunks where that is too large.

        Where all clients' rows are among the arguments, as state that clients keep, the result is
        whole, too: chunks would be computed anew for each of its uses and save little.
        """
        clients, d = len(batch.starts), self.dimension
        if clients == 0:
            return self.zeros(0, d)
        if clients == 1 or clients * d <= self.numbers_at_once:
            return compute(*arguments, batch)
        chunked = any(isinstance(argument, ChunkedRows) for argument in arguments)
        if not chunked and any(getattr(argument, "ndim", 0) == 2 for argument in arguments):
            return compute(*arguments, batch)

        def of_chunk(chunk: slice) -> Any:
            parts = (rows_of(argument, chunk) for argument in arguments)
            return compute(*parts, batch.of_clients(chunk))

        return ChunkedRows((clients, d), max(1, self.numbers_at_once // d), of_chunk, self.itemsize)
