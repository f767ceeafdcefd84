"""Table of attacks on claimed privacy budgets."""

from collections.abc import Sequence

from fedatlas.algorithms import build_algorithm
from fedatlas.algorithms.dp_gradient_tracking import DpGradientTracking
from fedatlas.errors import FedatlasError
from fedatlas.evaluation.claims.audit_stands import REFUTED
from fedatlas.evaluation.levels import CONFIDENCE
from fedatlas.federations.decentralised.network import graph_weights
from fedatlas.schema.runs import RunSpec
from fedatlas.schema.studies import PrivacyAudit
from fedatlas.studies.attack_trials import attack


def tabulate_attacks(specs: Sequence[RunSpec], study: PrivacyAudit) -> list[dict[str, object]]:
    """A row for each run, curvature and accounting, the first accounting of a run first.

    audited_epsilon is a lower bound of the true ε. A claimed ε below it `does not stand`; others
    are `not refuted`.
    """
    rows: list[dict[str, object]] = []
    for spec in specs:
        algorithm = build_algorithm(spec)
        states, trackers = graph_weights(spec)
        if not isinstance(algorithm, DpGradientTracking) or trackers is None:
            raise FedatlasError(f"{spec.name}: only dp_gradient_tracking can be attacked")
        for curvature in study.curvatures:
            found = attack(
                algorithm,
                states,
                trackers,
                iterations=spec.rounds,
                samples=study.samples,
                curvature=curvature,
                runs=study.runs,
                # Shared among all curvatures of a run.
                confidence=1 - (1 - CONFIDENCE) / len(study.curvatures),
                seed=study.seed,
            )
            rows += [
                {
                    "run": spec.run,
                    "curvature": curvature,
                    "accounting": accounting,
                    "claimed_epsilon": claimed,
                    "audited_epsilon": found.lower_bound,
                    "detected": found.detected,
                    "mistaken": found.mistaken,
                    "runs": study.runs,
                    "verdict": REFUTED if found.lower_bound > claimed else "not refuted",
                }
                for accounting, claimed in found.claimed.items()
            ]
    return rows
