"""
A law for when local steps of silos pay
=======================================

TDCD's silos hold columns and take Q local steps between two messages, as if the other silos stood
still. How many rounds that saves depends on how many silos there are, N, and how much their columns
tell the same, ρ (correlation). The law is ours; it is exact for least squares over silos whose
columns are alike.

With a step η, Q local steps take a mode of curvature λ within a silo 1 − (1 − ηλ)^Q of the way to
its minimum. The silos together then go c = 1 + (N − 1)ρ times as far. Rounds converge only if that
is below 2 for the fastest mode: 1 − (1 − ηλ)^Q < s = 2/c. If s ≥ 1 it is so for every Q, and local
steps save up to Q times the rounds. If s < 1 it bounds Qη. Then local steps save at most
**−ln(1 − s)/s** times the rounds, however large Q is: 1.4 times with four silos, 1.1 with twelve.
So two silos gain by local steps, and twelve `hardly train
<../findings/tdcd.html#figures-5-and-8-on-synthetic-solids>`_ with them.

Lines are the law at the best step. Dots are what `fedatlas.train` takes at that step, or at one 1.4
times as large or small: fewer rounds where the slowest mode is one that these labels hardly have.
On the right: a round takes as long as a message and Q local steps. Which Q is at the target first?
"""

import logging
import math

import matplotlib.pyplot as plt
import numpy as np

import fedatlas

logging.disable(logging.INFO)
CORRELATION, TARGET, ROWS = 0.9, 0.01, 400
CURVATURES = np.geomspace(2, 0.02, 4)  # of the modes of a silo; the loss is (x·w − y)²
random = np.random.default_rng(0)


def contraction(step, silos, local_steps):
    """What the slowest mode keeps of its distance in a round, at its largest over modes."""
    moved = 1 - (1 - step * CURVATURES) ** local_steps
    return np.abs(1 - moved * (1 + (silos - 1) * CORRELATION)).max()


def law(silos, local_steps):
    """Rounds until the objective is at the target, and the step that takes the fewest."""
    kept, step = min(
        (contraction(one, silos, local_steps), one) for one in np.geomspace(1e-4, 2, 999)
    )
    return math.log(TARGET) / 2 / math.log(kept), step


def views(silos):
    """Columns of silos, each a view of the same four numbers; labels that the views agree on."""
    drawn = random.standard_normal((ROWS, 4 * (silos + 1)))
    drawn = np.linalg.qr(drawn - drawn.mean(axis=0))[0] * math.sqrt(ROWS)
    common, own = drawn[:, :4], np.split(drawn[:, 4:], silos, axis=1)
    shares = math.sqrt(CORRELATION), math.sqrt(1 - CORRELATION)
    seen = [(shares[0] * common + shares[1] * one) * np.sqrt(CURVATURES / 2) for one in own]
    return np.hstack(seen), sum(one / CURVATURES for one in seen).sum(axis=1) / silos


def rounds(rows, silos, local_steps, step):
    """Rounds that TDCD takes."""
    trace = fedatlas.train(
        *("tdcd", rows),
        partition={"kind": "tiered", "cut": {"columns": silos}, "clients": 1},
        objective={"name": "least_squares"},
        rounds=150,
        batch_size=ROWS,
        **{"step_size": step, "local_steps": local_steps},
    )
    loss = trace["objective"].values[0]
    reached = loss <= TARGET * loss[0]
    return int(reached.argmax()) if reached.any() else math.inf


# %%

LOCAL_STEPS, MESSAGES = [1, 3, 10, 30], np.geomspace(0.1, 1000, 25)
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
for silos in (2, 4, 12):
    rows = views(silos)
    predicted = [law(silos, one) for one in LOCAL_STEPS]
    found = [
        min(rounds(rows, silos, one, step * factor) for factor in (0.7, 1.0, 1.4))
        for one, (_, step) in zip(LOCAL_STEPS, predicted, strict=True)
    ]
    pairs = zip(predicted, found, strict=True)
    told = ", ".join(f"{one:.0f} ({other})" for (one, _), other in pairs)
    print(f"{silos} silos: {told} rounds with Q = 1, 3, 10, 30")
    (line,) = left.plot(LOCAL_STEPS, [one for one, _ in predicted], label=f"{silos} silos")
    left.plot(LOCAL_STEPS, found, "o", color=line.get_color())
    taken = np.array([law(silos, one)[0] for one in range(1, 41)])
    times = taken * (MESSAGES[:, None] + np.arange(1, 41))
    right.plot(MESSAGES, times.argmin(axis=1) + 1, drawstyle="steps-mid")
left.set(xscale="log", yscale="log", xlabel="local steps Q", ylabel="rounds until f ≤ 0.01 f(0)")
left.set_xticks(LOCAL_STEPS, LOCAL_STEPS)
left.legend()
right.set(xscale="log", xlabel="time of a message over that of a local step", ylabel="best Q")
