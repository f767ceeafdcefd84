"""Answers that are taken as they arrive: local work from old models, and what their age counts."""

from _shared import local_step


def weight(declared, age):
    """s(τ), by its kind."""
    if declared["kind"] == "polynomial":
        return (age + 1) ** -declared["power"]
    if declared["kind"] == "hinge" and age > declared["grace"]:
        return 1 / (declared["slope"] * (age - declared["grace"]) + 1)
    return 1.0


def arrived(state, draws, problem, hyper, mu=0.0):
    """Of each answer its client, s(τ), the model that was sent, and the one that was found."""
    for (i, steps), age in zip(draws.batches[0], draws.staleness, strict=True):
        sent = y = state["_models"][draws.round - age]
        for rows in steps:
            g = problem.gradient(i, y, rows) + mu * (y - sent)
            y = y - local_step(hyper, draws.round) * g
        yield i, weight(hyper.staleness, int(age)), sent, y
