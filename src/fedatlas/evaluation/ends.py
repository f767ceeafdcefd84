"""Claims about the measurement that two runs end with."""

from abc import ABC
from collections.abc import Iterator, Sequence
from functools import partial

from fedatlas.evaluation.costs import Trace
from fedatlas.evaluation.levels import until
from fedatlas.evaluation.relations import SHARES, ComparisonTest, final_losses, judged_again
from fedatlas.evaluation.results import Results
from fedatlas.schema.claims import CaseOutcome, PairTest
from fedatlas.schema.measurements import Level


class FinalTest(ComparisonTest, PairTest, ABC):
    """A comparison of where the selected points of two runs end."""

    measurement: Level

    def judge(self, results: Results) -> Iterator[CaseOutcome]:
        traces = results.selected(*self.runs)
        again = {
            words: partial(self._at_end, results, [until(trace, share) for trace in traces])
            for words, share in SHARES.items()
        }
        finding = judged_again(self._at_end(results, traces), again)
        yield from results.with_tuning([finding], *self.runs)

    def _at_end(self, results: Results, traces: Sequence[Trace]) -> CaseOutcome:
        return self.compared(
            results,
            traces,
            [
                (run, final_losses(trace, self.measurement))
                for run, trace in zip(self.runs, traces, strict=True)
            ],
            subject=f"{self.measurement} at the end",
            what=self.measurement,
            measurement=self.measurement,
        )
