"""Arguments of steps that follow from the plan: a step runs again when they change."""

from typing import Any

from fedatlas.plan.build import Plan


def keys(plan: Plan, name: str, *declared: str, **more: object) -> dict[str, Any]:
    """These keys of an experiment with their values, and more beside them."""
    return plan.experiments[name].model_dump(mode="json", include={*declared}) | more


def selection(plan: Plan, name: str) -> dict[str, Any]:
    """How points are chosen, and which runs are tuned elsewhere with what they declare."""
    experiment = plan.experiments[name]
    tuned = {
        run: {"experiment": each.tuned_in, "declared": [*each.hyper_parameters, *each.grid]}
        for run, each in experiment.runs.items()
        if each.tuned_in and experiment.trained
    }
    return keys(plan, name, "selection", tuned=tuned)


def claims(plan: Plan, name: str) -> dict[str, Any]:
    """What verdicts depend on besides traces and the selection."""
    return keys(plan, name, "paper", "claims", "looks", experiment=name)


def figure(plan: Plan, name: str) -> dict[str, Any]:
    """What a figure depends on besides traces."""
    experiment = plan.experiments[name]
    drawn = [claim.model_dump(mode="json") for claim in experiment.drawn_claims]
    more = {"claims": drawn} if drawn else {}
    return titles(plan, name) | keys(plan, name, "figure", **more)


def graphs(plan: Plan, name: str) -> dict[str, Any]:
    """What a drawing of graphs depends on."""
    return heading(plan, name) | keys(plan, name, "graphs", agents=plan.agents_of(name))


def privacy(plan: Plan, name: str, study: str) -> dict[str, Any]:
    """What a study of the privacy of all runs depends on; study: its key in the experiment."""
    runs = [spec.model_dump(mode="json") for spec in plan.runs_of(name)]
    return keys(plan, name, study, runs=runs)


def validation(plan: Plan, name: str) -> dict[str, Any]:
    """What the comparison of processes with the simulated network depends on besides shards."""
    experiment = plan.experiments[name]
    declared = experiment.validation
    assert declared is not None
    network = declared.network or experiment.network
    assert network is not None
    runs = declared.model_dump(mode="json", exclude={"parties", "active", "network"})
    objective = experiment.objective.model_dump(mode="json")
    network_keys = network.model_dump(mode="json")
    return {"validation": {"objective": objective, "network": network_keys, **runs}}


def titles(plan: Plan, name: str) -> dict[str, Any]:
    """What a figure of a study says."""
    return heading(plan, name) | {"runs": plan.run_titles(name)}


def heading(plan: Plan, name: str) -> dict[str, Any]:
    """What stands above an experiment's figures."""
    experiment = plan.experiments[name]
    return {"title": f"{experiment.title} — {experiment.source}"}


def trees(plan: Plan, name: str) -> dict[str, Any]:
    """What a drawing of aggregation trees depends on."""
    return {"parties": keys(plan, name, "partition")["partition"]["parties"]}
