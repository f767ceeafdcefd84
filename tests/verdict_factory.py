"""Verdicts made up: claims and cases, with effects where they are given."""

import math
from typing import Any

from fedatlas.evaluation.verdicts import Verdict
from fedatlas.schema.claims import Effect


def effect(estimate: float = 0.48, low: float = 0.44, high: float = 0.52, **more: Any) -> Effect:
    """By default a third of the cost, over ten seeds."""
    usual = {"smallest": math.log10(1.05), "unit": "decades", "seeds": 10}
    return Effect(estimate=estimate, low=low, high=high, **(usual | more))


def verdict(claim: str, outcome: str = "reproduced", case: str = "", **more: Any) -> Verdict:
    """claim: experiment/id, of which the paper is the group."""
    usual = {
        "paper": claim.partition("-")[0],
        "source": "Figure 1",
        "statement": f"says {claim}",
        "sentence": claim,
        "question": "paper",
        "evidence": "0.5 against 0.7",
    }
    return Verdict(claim=claim, case=case, outcome=outcome, **(usual | more))


def every_outcome(experiment: str = "fmgda-fig2") -> list[Verdict]:
    """A claim of each outcome, one with cases, one that is fragile, and questions of ours."""
    fragile = "no difference at half the budget"
    none = {"effect": None}
    rounds = "a 30, b 90; 0.33 times the rounds (0.3 to 0.36); a factor of 1.05 counts"
    points = {"unit": "test_auroc", "smallest": 0.005}
    return [
        verdict(
            f"{experiment}/third",
            statement="FMGDA needs a third of FedAvg's rounds to a gradient norm of 0.01",
            evidence=rounds,
            effect=effect(p=0.001, published=math.log10(2)),
        ),
        verdict(
            f"{experiment}/every-step",
            "undecided",
            evidence="3 cases: 1 reproduced, 1 contradicted, 1 undecided",
            statement="It is faster at every step size",
        ),
        verdict(f"{experiment}/every-step", "reproduced", "step 0.1", effect=effect(p=0.001)),
        verdict(
            f"{experiment}/every-step",
            "undecided",
            "step 0.3",
            effect=effect(0.1, -0.05, 0.3, needed=34),
        ),
        verdict(
            f"{experiment}/every-step",
            "undecided",
            "step 1",
            fragile=fragile,
            effect=effect(0.2, -math.inf, math.inf, seeds=3),
        ),
        verdict(
            f"{experiment}/lead",
            "smaller than claimed",
            statement="The AUROC is 0.03 higher",
            evidence="a 0.95, b 0.94; test_auroc 0.01 higher (0.008 to 0.012); 0.005 counts",
            effect=effect(0.01, 0.008, 0.012, published=0.03, **points),
        ),
        verdict(
            f"{experiment}/tie",
            "no difference",
            fragile=fragile,
            effect=effect(0.0001, -0.002, 0.003, **points),
        ),
        verdict(
            f"{experiment}/behind",
            "contradicted",
            effect=effect(-math.inf, -math.inf, -0.3, p=0.02),
            evidence="a diverges at 8 of 10 seeds",
        ),
        verdict(
            f"{experiment}/open",
            "undecided",
            effect=effect(0.004, -0.03, 0.2, needed=None, **points),
        ),
        verdict(f"{experiment}/constant", "not testable", evidence="K is 4 throughout", **none),
        verdict(
            f"{experiment}/printed",
            "compatible",
            evidence="a 0.945, published 0.94 of one trial; ours minus the published 0.005",
            effect=effect(0.005, -0.008, 0.018, smallest=0.0, unit="test_auroc", published=0.0),
        ),
        verdict(f"{experiment}/other", "incompatible", evidence="0.5 outside 0.9 to 1", **none),
        verdict(
            f"{experiment}/ours",
            "reproduced",
            sentence="",
            question="ours",
            effect=effect(3.2, 2.5, math.inf, p=1e-4),
        ),
    ]
