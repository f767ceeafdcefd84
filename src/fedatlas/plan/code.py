"""The modules of steps whose code depends on what they work on."""

from collections.abc import Iterable

from fedatlas.plan import data, results
from fedatlas.plan.build import Plan


def of_experiments(plan: Plan, names: Iterable[str]) -> list[tuple[str, ...]]:
    """Each list of modules once, for all that these experiments need, tuning included."""
    needed = set(names)
    needed |= {plan.experiments[name].runs_of or name for name in needed}
    needed |= {of.tuned_in for of in plan.runs.values() if of.tuned_in and of.experiment in needed}
    found = {spec.code for spec in plan.runs.values() if spec.experiment in needed}
    found |= {(module,) for module in data.SHARDING.values()}
    for name in needed:
        experiment = plan.experiments[name]
        found.add(tuple(data.reading_code(plan.catalogue, experiment.dataset)))
        found.add(tuple(results.judging_code(plan, name)))
        if experiment.landscape is not None:
            found.add(tuple(results.landscape_code(plan, name)))
        if experiment.budgets is not None:
            found.add(tuple(results.budgets_code(plan, name)))
    return sorted(found)
