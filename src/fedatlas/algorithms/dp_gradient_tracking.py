"""DP-GT: gradient tracking over two directed graphs, with Laplace noise on all that is sent."""

from dataclasses import dataclass
from functools import cached_property
from math import nan
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import PositiveInt, model_validator

from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.errors import FedatlasError
from fedatlas.federations.decentralised import DecentralisedAlgorithm
from fedatlas.federations.decentralised.graph import GraphNetwork, GraphProblem
from fedatlas.privacy.accountants import (
    Accounting,
    Budget,
    PrivacyContext,
    compact_form,
    fresh_laplace,
    laplace_composition,
    lemma_2,
    summation_by_parts,
    worst_agent,
)
from fedatlas.privacy.conditions import Condition, conditions
from fedatlas.privacy.schemes import Scheme
from fedatlas.schema.graphs import check_common_root
from fedatlas.schema.runs import RunSpec


@dataclass(frozen=True)
class State:
    """Iteration k, models x and trackers y, and the gradients g at x, (n, d) each.

    Before iteration 0, which draws the first samples, y and g are None.
    """

    k: int
    x: Any
    y: Any
    g: Any


class DpGradientTracking(DecentralisedAlgorithm):
    """DP-GT (Chen, Wang, Zhang, "Differentially Private Gradient-Tracking-Based …", Algorithm 1).

    scheme: α_K, β_K, γ_K, m_K and the scales σ_k of the noises ζ and η, of the horizon K.
    horizon: K; a run has at most K + 1 iterations.
    form:
        `compact`: (7) and (8), which the convergence proofs are about: an agent counts its own
            sent, noisy value, and trackers leave by the weights of their receivers, so that
            Σ_i y_i = Σ_i g_i whatever the noise.
        `literal`: (4) and (6) as printed, which the privacy proof is about: an agent counts its own
            exact value, and its tracker loses what it receives instead of what it sends.
        `provable`: ours. As compact, but agents step along the trackers that they released and send
            their models exactly: models, and with them the points of all gradients, are functions
            of what was released, so that every release depends on fresh samples only (in exact
            arithmetic; statistics by which data are normalised count as public).
    All agents start from one model.
    """

    title: ClassVar[str] = "DP-GT"
    source: ClassVar[str] = (
        "Chen, Wang, Zhang, Algorithm 1, by default in its compact form (7)/(8), from which the "
        "printed steps (4)/(6) differ. The graphs, their weights, the network and one start for "
        "all agents are our choices, and so is the form `provable`"
    )
    needs_every_message: ClassVar[str] = (
        "trackers add up what was sent, so that Σ y = Σ g ends with a release that is lost"
    )

    scheme: Scheme
    horizon: PositiveInt
    form: Literal["compact", "literal", "provable"] = "compact"

    @model_validator(mode="after")
    def _provable_is_proved(self) -> Self:
        if self.form == "provable" and self.clipping != "l1":
            raise ValueError("form provable rests on clipping: l1, the norm of Laplace noise")
        return self

    def check_graphs(self, states: np.ndarray, trackers: np.ndarray | None) -> None:
        """Assumption 1."""
        if trackers is None:
            raise FedatlasError(f"{self.title} needs a second graph: say 'graphs.trackers'")
        check_common_root(states, trackers)

    def check_run(self, spec: RunSpec) -> None:
        """K = 0 … K."""
        super().check_run(spec)
        if spec.rounds > self.horizon + 1:
            raise FedatlasError(
                f"horizon {self.horizon} has {self.horizon + 1} iterations, fewer than the "
                f"{spec.rounds} rounds"
            )

    @property
    def effective_step_size(self) -> float:
        """γ_K."""
        return self.scheme.steps(self.horizon).step_size

    def budgets(self, context: PrivacyContext, iterations: int) -> dict[str, Budget]:
        """DP-GT's own lemmas, then bounds for the form that runs.

        With clipping the last one needs no assumption: whatever the points, gradients over m
        samples, each cut to C/2, are within C of each other, m times C/m.
        """
        samples = self.scheme.steps(self.horizon).samples
        bound = self._l1_bound(context.dimension)
        if self.form == "provable":
            fresh = bound, samples, self._noise[1, :iterations], iterations
            return {
                "fresh samples, amplified": fresh_laplace(*fresh, context.samples),
                "fresh samples": fresh_laplace(*fresh),
            }

        own = compact_form if self.form == "compact" else summation_by_parts
        name = "form (7)/(8)" if self.form == "compact" else "form (4)/(6), by parts"
        budgets = {
            "Lemmas 2 and 3": self.budget_by(lemma_2, context, iterations, bound),
            name: self.budget_by(own, context, iterations, bound),
        }
        if self.clipping != "none":
            any_points = self.budget_by(own, context, iterations, samples * bound)
            budgets[f"{name}, at any points"] = any_points
        return budgets

    def budget_by(
        self, accounting: Accounting, context: PrivacyContext, iterations: int, bound: float
    ) -> Budget:
        """Lemma 3, of the worst agent, with an accounting's sensitivities; bound: C in l1."""
        steps = self.scheme.steps(self.horizon)

        def of_agent(state_weight: float, tracker_weight: float) -> Budget:
            moved = accounting(steps, state_weight, tracker_weight, iterations - 1)
            return laplace_composition(moved, bound, *self._noise[:, :iterations])

        assert context.trackers is not None
        return worst_agent(of_agent, context.states.sum(axis=1), context.trackers.sum(axis=1))

    def budgets_by_horizon(self, context: PrivacyContext, last: int) -> dict[str, Budget]:
        """NaN where a horizon asks for more samples than there are."""
        ends = [self._of_horizon(horizon, context) for horizon in range(1, last + 1)]
        return {name: Budget(*np.array([end[name] for end in ends]).T) for name in ends[0]}

    def _of_horizon(self, horizon: int, context: PrivacyContext) -> dict[str, tuple[float, float]]:
        """(ε, δ) of a whole run by accounting."""
        if self.scheme.steps(horizon).samples > context.samples:
            return dict.fromkeys(self.budgets(context, 1), (nan, nan))
        other = type(self).model_validate(self.model_dump() | {"horizon": horizon})
        budgets = other.budgets(context, horizon + 1)
        return {name: budget.final for name, budget in budgets.items()}

    @property
    def _points_are_released(self) -> bool:
        return self.form == "provable"

    @property
    def privacy_statement(self) -> str:
        proved = "; Lemmas 2 and 3 are proved for (4) and (6)" if self.form == "compact" else ""
        return super().privacy_statement + proved

    def conditions(self, context: PrivacyContext) -> tuple[Condition, ...]:
        """Conditions of the form's theorems; L and μ are not known.

        Lemma 1, and Assumptions 4 and 5 of convergence, which is that of (7) and (8); Theorems 4
        and 5 of a finite ε, which the paper states for both forms.
        """
        assert context.trackers is not None
        every = conditions(self.scheme, self.horizon, context.states, context.trackers)
        if self.form == "compact":
            return every
        others = ("Assumption",) if self.form == "literal" else ("Assumption", "Theorem")
        return tuple(each for each in every if not each.source.startswith(others))

    @cached_property
    def _noise(self) -> np.ndarray:
        """(2, K + 1) σ_k of ζ and of η."""
        return self.scheme.noise(self.horizon)

    def start(self, problem: GraphProblem, network: GraphNetwork, x0: Any) -> State:
        """x_0; y_0 = g_0 are taken at it in iteration 0, when samples can be drawn."""
        return State(0, x0, None, None)

    def round(
        self, state: State, problem: GraphProblem, network: GraphNetwork, random: RoundRandom
    ) -> State:
        steps = self.scheme.steps(self.horizon)
        assert network.trackers is not None  # as `check_graphs` has made sure
        x, y, g = state.x, state.y, state.g
        if g is None:
            first = problem.minibatches(random, steps.samples)
            y = g = problem.gradients(x, first, self.clipping_rule)
        y_sent = network.trackers.release(y, self._noise[1, state.k], random)
        if self.form == "provable":
            x_sent, y_stepped = network.states.send(x), y_sent
        else:
            x_sent = network.states.release(x, self._noise[0, state.k], random)
            y_stepped = y
        alpha, beta = steps.state_coupling, steps.tracker_coupling
        if self.form == "literal":
            x = x + alpha * network.states.towards(x, x_sent)
            y = y + beta * network.trackers.towards(y, y_sent)
        else:
            x = x - alpha * (network.states.in_laplacian @ x_sent)
            y = y - beta * (network.trackers.out_laplacian @ y_sent)
        x = x - steps.step_size * y_stepped
        batch = problem.minibatches(random, steps.samples)
        g_next = problem.gradients(x, batch, self.clipping_rule)
        return State(state.k + 1, x, y + g_next - g, g_next)
