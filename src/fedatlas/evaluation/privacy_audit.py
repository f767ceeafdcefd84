"""Attacks on claimed privacy budgets, tabulated and judged."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from fedatlas.algorithms.dp_gradient_tracking import DpGradientTracking
from fedatlas.claims import AuditStandsTest, PrivacyAudit
from fedatlas.errors import FedatlasError
from fedatlas.evaluation.comma_separated import to_csv
from fedatlas.evaluation.evidence import Finding
from fedatlas.files import write_text
from fedatlas.privacy.audit import audit
from fedatlas.specs import RunSpec

_COLUMNS = (
    "run",
    "curvature",
    "accounting",
    "claimed_epsilon",
    "audited_epsilon",
    "detected",
    "mistaken",
    "runs",
    "verdict",
)

_REFUTED = "does not stand"
CONFIDENCE = 0.95  # of all curvatures of a run together


def attack(specs: Sequence[RunSpec], study: PrivacyAudit) -> list[dict[str, object]]:
    """A row for each run, curvature and accounting, the run's first one first.

    audited_epsilon is a lower bound of the true ε: a claim below it `does not stand`. All others
    are `not refuted`.
    """
    rows: list[dict[str, object]] = []
    for spec in specs:
        algorithm = spec.build_algorithm()
        states, trackers = spec.weights
        if not isinstance(algorithm, DpGradientTracking) or trackers is None:
            raise FedatlasError(f"{spec.name}: only dp_gradient_tracking can be audited")
        for curvature in study.curvatures:
            found = audit(
                algorithm,
                states,
                trackers,
                iterations=spec.rounds,
                samples=study.samples,
                curvature=curvature,
                runs=study.runs,
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
                    "runs": found.runs,
                    "verdict": _REFUTED if found.lower_bound > claimed else "not refuted",
                }
                for accounting, claimed in found.claimed.items()
            ]
    return rows


def write_audit(rows: Sequence[Mapping[str, object]], path: Path) -> None:
    """Write the table as CSV, whole or not at all."""
    write_text(path, to_csv(rows, _COLUMNS))


def read_audit(path: Path) -> list[dict[str, str]]:
    """Read it back; a foreign file is refused by name."""
    with path.open(encoding="utf-8", newline="") as stream:
        reader = csv.DictReader(stream)
        if tuple(reader.fieldnames or ()) != _COLUMNS:
            raise FedatlasError(f"{path}: holds no privacy audit. Delete it and run again.")
        return list(reader)


def judge_audit(test: AuditStandsTest, rows: Sequence[Mapping[str, str]]) -> Iterator[Finding]:
    """A case for each curvature, by the run's first accounting."""
    own = [row for row in rows if row["run"] == test.run]
    for curvature in dict.fromkeys(row["curvature"] for row in own):
        first, *others = [row for row in own if row["curvature"] == curvature]
        refuted = first["verdict"] == _REFUTED
        bound, runs = float(first["audited_epsilon"]), int(first["runs"]) // 2
        evidence = (
            f"curvature {float(curvature):g}: true ε ≥ {bound:.3g} at {CONFIDENCE:.0%} confidence "
            f"for all curvatures ({runs} runs on either data set, as many to choose the test); "
            "claimed "
            + "; ".join(
                f"{float(row['claimed_epsilon']):.4g} ({row['accounting']})"
                for row in (first, *others)
            )
        )
        yield Finding(
            f"[curvature {float(curvature):g}]",
            "not reproduced" if refuted else "inconclusive",
            evidence,
        )
