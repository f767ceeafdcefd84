from collections.abc import Iterator
from typing import ClassVar, Literal

from fedatlas.evaluation.results import Results
from fedatlas.schema.claims import CaseOutcome, ClaimTest


class BeyondDataTest(ClaimTest):
    """A sentence that no run and no attack could contradict, such as algebra; not testable.

    reason: why, and what is known of it.
    """

    needs: ClassVar[tuple[str, ...]] = ()

    kind: Literal["beyond_data"]
    reason: str

    @property
    def runs(self) -> tuple[str, ...]:
        return ()

    def judge(self, results: Results) -> Iterator[CaseOutcome]:
        yield CaseOutcome("", "not testable", self.reason)
