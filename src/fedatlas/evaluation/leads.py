"""Claims that one run is further ahead of another here than there."""

from abc import ABC
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fedatlas.evaluation.comparison import advantages
from fedatlas.evaluation.costs import Trace
from fedatlas.evaluation.evidence import counts, format_effect
from fedatlas.evaluation.relations import ComparisonTest, check_pairs, format_ends
from fedatlas.evaluation.results import Results
from fedatlas.schema.claims import CaseOutcome, PairTest
from fedatlas.schema.measurements import Level


class Lead(NamedTuple):
    """Where two runs are compared.

    subject: what losses are of, and where. losses: (seeds,) of each run, +inf for a lost seed.
    """

    subject: str
    traces: Sequence[Trace]
    losses: Sequence[np.ndarray]


class LeadTest(ComparisonTest, PairTest, ABC):
    """By how much more `first` is ahead of `second` in one place than in another.

    The statistic is the lead in the second place minus that in the first, seed by seed, in units of
    the measurement.
    """

    measurement: Level

    def widened(self, results: Results, narrow: Lead, wide: Lead) -> CaseOutcome:
        """The lead that should be wide against the one that should be narrow.

        A seed that both runs lost in one place, or that one run lost in both, shows no change.
        """
        traces = [*narrow.traces, *wide.traces]
        check_pairs(traces)
        leads = [advantages(*lead.losses) for lead in (narrow, wide)]
        unknown = np.isinf(leads[0]) & (leads[0] == leads[1])
        for lead in (narrow, wide):
            unknown |= np.isinf(lead.losses).all(axis=0)
        if unknown.all():
            return CaseOutcome("", "not testable", "a run without any seed shows no gap")
        with np.errstate(invalid="ignore"):
            gaps = np.where(unknown, 0.0, leads[1] - leads[0])
        outcome, effect = results.compare(gaps, self.criterion, self.unit, traces, self.measurement)
        told = "; ".join(
            f"{lead.subject}: "
            + ", ".join(
                format_ends(run, values, self.unit, self.measurement)
                for run, values in zip(self.runs, lead.losses, strict=True)
            )
            for lead in (narrow, wide)
        )
        gap = format_effect(effect, f"the gap in {self.measurement}:", "wider", "narrower")
        if self.unit == "decades":
            gap = format_effect(effect, f"ratio of {self.measurement}", "", "")
        evidence = (
            f"{told}; {gap}; {counts(effect)}{results.of_test_rows(traces, self.measurement)}"
        )
        return CaseOutcome("", outcome, evidence, effect)
