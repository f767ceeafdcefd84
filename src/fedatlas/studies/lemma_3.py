"""Claimed privacy budgets of DP-GT against what a pair of adjacent data sets truly loses.

The problem is tiny: one number per agent. Sample l of agent i has the loss ½ h x² − c_il x, or
x² + 3 sin² x − c_il x; one sample of agent 0 has another c, so that its gradients differ by C at
every x, as Definition 3 of the paper asks. The ε of the pair follows by a sum, see
`privacy.adjacent_runs`. Sampled attacks are a check of it, see `attacks`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from fedatlas.algorithms import build_algorithm
from fedatlas.algorithms.dp_gradient_tracking import DpGradientTracking
from fedatlas.errors import FedatlasError
from fedatlas.evaluation.claims.audit_stands import REFUTED
from fedatlas.evaluation.comparison import CONFIDENCE
from fedatlas.federations.decentralised.network import graph_weights
from fedatlas.privacy.accountants import PrivacyContext
from fedatlas.privacy.adjacent_runs import (
    ChangedAgent,
    lowest_curvature_of_remark_4,
    pair_epsilon,
    refuted_from,
    sampled_pair_epsilon,
)
from fedatlas.schema.runs import RunSpec
from fedatlas.schema.studies import PrivacyAudit
from fedatlas.studies.attacks import Attack, attack, claimed_epsilon

_REMARK_4, _SMOOTHNESS_OF_REMARK_4 = "x² + 3 sin² x", 8.0
_FAR = 50.0  # curvatures are looked for up to this times 1/γ, where all but the provable form fail


@dataclass(frozen=True)
class PairRow:
    """A row of the table: a run, a pair of data sets and an accounting.

    case: the loss. samples, drawn: D and m. claimed_epsilon: by the accounting. pair_epsilon: that
    of the pair. known: whether it is `exact` or `at least` that. refuted_below, refuted_above: the
    curvatures from which on pairs of quadratic losses lose more than is claimed. audited_epsilon:
    the lower bound that an attack shows, with the shares of runs that it detected and mistook.
    """

    run: str
    case: str
    samples: int
    drawn: int
    accounting: str
    claimed_epsilon: float
    pair_epsilon: float
    known: str
    refuted_below: float | None
    refuted_above: float | None
    audited_epsilon: float | None
    detected: float | None
    mistaken: float | None
    runs: int | None
    verdict: str


def tabulate_pairs(specs: Sequence[RunSpec], study: PrivacyAudit) -> list[dict[str, object]]:
    """A row for each run, loss and accounting, the first accounting of a run first.

    A claim below the pair's ε `does not stand`; others are `not refuted`: the pair is one of many.
    """
    return [asdict(row) for spec in specs for row in _Audit(spec, study).rows()]


class _Audit:
    """One run held against all pairs of a study."""

    def __init__(self, spec: RunSpec, study: PrivacyAudit) -> None:
        algorithm = build_algorithm(spec)
        states, trackers = graph_weights(spec)
        if not isinstance(algorithm, DpGradientTracking) or trackers is None:
            raise FedatlasError(f"{spec.name}: only dp_gradient_tracking can be attacked")
        if not algorithm.scheme.tracker_noise(algorithm.horizon).min() > 0:
            raise FedatlasError(
                "privacy_audit: without noise there is nothing to attack: state some"
            )
        self._spec, self._study, self._algorithm = spec, study, algorithm
        self._graphs = states, trackers
        steps = algorithm.scheme.steps(algorithm.horizon)
        self._drawn = steps.samples
        self._samples = study.samples or self._drawn
        if self._drawn > self._samples:
            raise FedatlasError(
                f"privacy_audit: {spec.run} draws {self._drawn} of {self._samples} samples; "
                "raise 'samples'"
            )
        self._share = self._drawn / self._samples
        self._thresholds: dict[tuple[float, int], float | None] = {}
        self._moved = algorithm.gradient_bound / self._drawn
        self._agent = ChangedAgent(
            algorithm.form,
            steps,
            float(states[0].sum()),
            float(trackers[0].sum()),
            algorithm.scheme.state_noise(algorithm.horizon)[: spec.rounds],
            algorithm.scheme.tracker_noise(algorithm.horizon)[: spec.rounds],
        )

    def rows(self) -> Iterator[PairRow]:
        for curvature in self._study.curvatures:
            yield from self._of_loss(
                f"curvature {curvature:g}", self._spent(curvature), abs(curvature), curvature
            )
        if self._study.remark_4 and self._share == 1 and self._algorithm.form != "provable":
            spent = pair_epsilon(self._agent, self._moved, lowest_curvature_of_remark_4)
            yield from self._of_loss(_REMARK_4, spent, _SMOOTHNESS_OF_REMARK_4, None)

    def _spent(self, curvature: float) -> float:
        if self._share == 1:
            return pair_epsilon(self._agent, self._moved, curvature)
        return sampled_pair_epsilon(self._agent, self._moved, curvature, self._share)

    def _of_loss(
        self, case: str, spent: float, smoothness: float, curvature: float | None
    ) -> Iterator[PairRow]:
        """curvature: that of a quadratic loss."""
        context = PrivacyContext(self._samples, 1, *self._graphs)
        claims = claimed_epsilon(self._algorithm, context, self._spec.rounds, smoothness)
        found = self._attack(curvature)
        for accounting, claimed in claims.items():
            # The one accounting that knows the curvature changes with it.
            fixed = not accounting.endswith("with the curvature")
            yield PairRow(
                run=self._spec.run,
                case=case,
                samples=self._samples,
                drawn=self._drawn,
                accounting=accounting,
                claimed_epsilon=claimed,
                pair_epsilon=spent,
                known="exact" if self._exact(curvature) else "at least",
                refuted_below=self._refuted(claimed, -1) if fixed else None,
                refuted_above=self._refuted(claimed, 1) if fixed else None,
                audited_epsilon=found.lower_bound if found else None,
                detected=found.detected if found else None,
                mistaken=found.mistaken if found else None,
                runs=self._study.runs if found else None,
                verdict=REFUTED if spent > _above(claimed) else "not refuted",
            )

    def _exact(self, curvature: float | None) -> bool:
        """Whether the sum is the pair's ε, not only a lower bound."""
        if curvature is None:  # what is sent is not chosen for the whole run together
            return False
        form = self._algorithm.form
        return self._share == 1 or form == "provable" or (form == "compact" and curvature <= 0)

    def _refuted(self, claimed: float, side: int) -> float | None:
        if (claimed, side) not in self._thresholds:
            far = side * _FAR / self._agent.steps.step_size
            self._thresholds[claimed, side] = refuted_from(self._spent, _above(claimed), far)
        return self._thresholds[claimed, side]

    def _attack(self, curvature: float | None) -> Attack | None:
        """None of what the study does not attack."""
        if curvature is None or self._study.runs is None:
            return None
        return attack(
            self._algorithm,
            *self._graphs,
            iterations=self._spec.rounds,
            samples=self._samples,
            curvature=curvature,
            runs=self._study.runs,
            # Shared among all curvatures of a run.
            confidence=1 - (1 - CONFIDENCE) / len(self._study.curvatures),
            seed=self._study.seed,
        )


def _above(claimed: float) -> float:
    """The least ε that is more than claimed, sums in another order being the same."""
    return claimed * (1 + 1e-9)
