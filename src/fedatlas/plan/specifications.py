"""What steps are told by `--spec`, as canonical JSON: a step runs again when it changes."""

from fedatlas.files import canonical_json
from fedatlas.plan.build import Plan
from fedatlas.schema.models import Model


def of(model: Model) -> str:
    """A whole model."""
    return _json(model.model_dump(mode="json"))


def value(plan: Plan, name: str, key: str) -> str:
    """The value of one key of an experiment."""
    return _json(plan.experiments[name].model_dump(mode="json", include={key})[key])


def keys(plan: Plan, name: str, *declared: str, **more: object) -> str:
    """These keys of an experiment with their values, and more beside them."""
    return _json(plan.experiments[name].model_dump(mode="json", include={*declared}) | more)


def claims(plan: Plan, name: str) -> str:
    """What verdicts depend on besides traces and the selection."""
    return keys(plan, name, "paper", "claims", "looks", experiment=name)


def figure(plan: Plan, name: str) -> str:
    """What a figure depends on besides traces."""
    experiment = plan.experiments[name]
    drawn = [claim.model_dump(mode="json") for claim in experiment.drawn_claims]
    more = {"claims": drawn} if drawn else {}
    return keys(plan, name, "figure", title=title(plan, name), runs=plan.run_titles(name), **more)


def graphs(plan: Plan, name: str) -> str:
    """What a drawing of graphs depends on."""
    return keys(plan, name, "graphs", title=title(plan, name), agents=plan.agents_of(name))


def privacy(plan: Plan, name: str, study: str) -> str:
    """What a study of the privacy of all runs depends on; study: its key in the experiment."""
    runs = [spec.model_dump(mode="json") for spec in plan.runs_of(name)]
    return keys(plan, name, study, runs=runs)


def validation(plan: Plan, name: str) -> str:
    """What the comparison of processes with the simulated network depends on besides shards."""
    experiment = plan.experiments[name]
    declared = experiment.validation
    assert declared is not None
    network = declared.network or experiment.network
    assert network is not None
    runs = declared.model_dump(mode="json", exclude={"parties", "active", "network"})
    return keys(plan, name, "objective", network=network.model_dump(mode="json"), **runs)


def titles(plan: Plan, name: str) -> str:
    """What a figure of a study says."""
    return keys(plan, name, title=title(plan, name), runs=plan.run_titles(name))


def title(plan: Plan, name: str) -> str:
    """What stands above an experiment's figures."""
    experiment = plan.experiments[name]
    return f"{experiment.title} — {experiment.source}"


def heading(plan: Plan, name: str) -> str:
    """The same alone, for figures that say nothing else."""
    return keys(plan, name, title=title(plan, name))


def _json(value: object) -> str:
    # Snakemake's report puts it into a page's script, which "</script>" would end.
    return canonical_json(value).replace("<", "\\u003c")
