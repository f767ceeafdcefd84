"""How the best point of a grid is chosen."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

from pydantic import Field, model_validator

from fedatlas.schema.hyper_parameters import flat
from fedatlas.schema.measurements import Level
from fedatlas.schema.models import Model

#: A point that was tried, as records of selections state it: `score` and `scores_by_seed` are null
#: where they are infinite.
Candidate = Mapping[str, Any]


def best_candidate(candidates: Sequence[Candidate]) -> Candidate:
    """That of the lowest score, the first of several; one that lost a seed only if all did."""
    healthy = [one for one in candidates if None not in one["scores_by_seed"]]
    return min(
        healthy or candidates,
        key=lambda one: float("inf") if one["score"] is None else one["score"],
    )


def agreeing(candidates: Sequence[Candidate], declared: Mapping[str, Any]) -> list[Candidate]:
    """Those that have the declared values, as far as candidates differ in them."""
    tried = [flat(one["hyper_parameters"]) for one in candidates]

    def varies(key: str) -> bool:
        with_it = [own[key] for own in tried if key in own]
        return len(with_it) not in (0, len(tried)) or any(one != with_it[0] for one in with_it)

    wanted = {key: value for key, value in flat(declared).items() if varies(key)}
    return [
        one for one, own in zip(candidates, tried, strict=True) if wanted.items() <= own.items()
    ]


class Selection(Model):
    """How a grid's best point is chosen, on training data, by the same rule for every run.

    Score of a seed: mean log10 of the measurement over the last `window` of the rounds, of what is
    best at 1 (accuracy, AUROC) mean log10(1 − value), so that the lowest score is the best; of a
    point: the median over seeds. A point with a diverged seed is chosen only if all have one.

    shared: run → the run with the same grid whose point it takes.
    measurement: on training data, by which points are scored.
    window: share of the rounds, at their end, over which it is a mean.
    """

    measurement: Level = "gradient_norm"
    window: float = Field(default=0.1, gt=0, le=1)
    shared: dict[str, str] = Field(default={})

    @model_validator(mode="after")
    def _shared_points_are_chosen(self) -> Self:
        for run, other in self.shared.items():
            if other in self.shared:
                raise ValueError(
                    f"shared: '{run}' takes the point of '{other}', which chooses none itself"
                )
        return self
