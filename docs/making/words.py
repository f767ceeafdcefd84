"""Words and tests: the table of docs/verdicts.md, and what tests of each sentence declare.

`python -m making.words` writes the table anew.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fedatlas.evaluation.claims import slope
from fedatlas.evaluation.quantities import (
    COUNTING_DIFFERENCE,
    COUNTING_FACTOR,
    RELATIONS,
    WINDOW,
    Relation,
)
from fedatlas.files import write_text
from fedatlas.markdown import code, table, text
from fedatlas.plan.build import Plan
from fedatlas.schema.claims import Claim
from making.regions import filled

ROOT = Path(__file__).parents[2]
#: Between these lines docs/verdicts.md has the table.
MARKS = ("<!-- made by python -m making.words -->", "<!-- to here -->")
#: The papers' words for each relation.
_SAID: dict[Relation, str] = {
    "faster": "faster, outperforms, better, improves",
    "at_least_as_fast": "at least as fast, ≥",
    "much_faster": "much faster, >>",
    "similar": "similar",
    "nearly_the_same": "nearly the same, ≈",
}
#: Keys of tests that choose a quantity, a window or a margin, as claims declare them.
_DECLARED = (
    "smallest_effect",
    "published_effect",
    "window",
    "at",
    "share",
    "target",
    "targets",
    "stays",
    "each_record_from",
    "averaged",
    "power",
    "base",
    "order",
    "budget_stated",
    "above_optimum_by",
    "from_horizon",
    "tolerance",
    "against",
    "shown",
)


def words() -> str:
    """The table of words in Markdown, from what the code decides."""
    return table(("the paper's words", "read as", "margin, window or cases"), list(_decided()))


def _decided() -> Iterator[list[str]]:
    for relation, (direction, factor) in RELATIONS.items():
        yield [_SAID[relation], direction, f"a factor of {factor:g} between costs or errors"]
    yield [
        "better, higher (accuracies, AUROCs, F1 scores)",
        RELATIONS["faster"][0],
        f"a difference of {COUNTING_DIFFERENCE:g}",
    ]
    margin = slope.COUNTING_POWER
    yield ["O(N^p), O(1/ε^p)", "an exponent of at most p", f"it may be larger by {margin:g}"]
    yield ["near linear speed-up", "an exponent of −1", f"it may differ by {slope.NEAR:g}"]
    residual = f"residuals smaller by a factor of {COUNTING_FACTOR:g}"
    yield ["exponential, linear", "an exponential fits better than a power law", residual]
    yield ["polynomial, sublinear", "a power law fits better than an exponential", residual]
    yield ["in the end", "a mean over the end", f"the last {WINDOW:g} of the budget"]
    yield ["ends with; final numbers of tables", "the last record", 'as for "better"']
    yield [
        "grows, falls, improves with a parameter",
        "a change in this direction from each value to the next",
        'as for "better"',
    ]
    yield ["slightly", "better", 'as for "better"; whether it is little is not judged']
    most = "more than half of all cases"
    yield ["in most of the cases, typically, usually", "a claim about most cases", most]
    yield ["can", "a claim about at least one case", "the best case decides"]
    every = "in all cases, always; where nothing is said"
    yield [every, "a claim about all cases", "the worst case decides"]
    yield [
        "converges, has been trained",
        "better than the start and than a constant predictor",
        f"a factor of {COUNTING_FACTOR:g} (losses), "
        f"a difference of {COUNTING_DIFFERENCE:g} (accuracies)",
    ]


def tests_of_sentences(plan: Plan) -> dict[str, str]:
    """Kinds of the tests of each sentence and what they declare, in Markdown, by its id."""
    tests: dict[str, list[Any]] = {}
    for experiment in plan.experiments.values():
        for claim in experiment.claims:
            if claim.sentence:
                tests.setdefault(claim.sentence, []).append(_plain(claim))
    found = {}
    for name, own in tests.items():
        kinds = ", ".join(dict.fromkeys(map(_kind, own)))
        found[name] = "; ".join(filter(None, [kinds, text(_declared(own))]))
    return found


def _plain(claim: Claim) -> dict[str, Any]:
    """The test as a file states it; of a region that of its first cell."""
    test = claim.test.model_dump(mode="json", exclude_unset=True)
    cells = test.get("cells")
    return {"kind": test["kind"], **next(iter(cells.values()))} if cells else test


def _kind(test: dict[str, Any]) -> str:
    what = [test.get("relation"), test.get("measurement"), test.get("cost")]
    parameters = ", ".join(code(each) for each in what if each)
    return code(test["kind"]) + (f" ({parameters})" if parameters else "")


def _declared(tests: list[dict[str, Any]]) -> str:
    found: dict[str, dict[str, None]] = {}
    for test in tests:
        for key in _DECLARED:
            if test.get(key) is not None:
                found.setdefault(key, {})[_shown(test[key])] = None
    return "; ".join(f"{key} {', '.join(values)}" for key, values in found.items())


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(map(_shown, value)) + "]"
    return f"{value:g}" if isinstance(value, float) else str(value)


def with_words(page: str) -> str:
    """The page with the table between its marks."""
    return filled(page, *MARKS, f"\n{words()}\n")


if __name__ == "__main__":
    path = ROOT / "docs" / "verdicts.md"
    write_text(path, with_words(path.read_text("utf-8")))
    sys.stdout.write(f"{path}\n")
