"""
A law for when asynchrony saves time
====================================

VFB² without a barrier and with one make the same updates until they are at a target. So the ratio
of their times follows from the time of an update, for which a formula needs four numbers: the
latency of a message, the time of a share, how much single times vary, and the number of parties.
The formula is ours. It agrees with the 90 simulated networks of `the findings
<../findings/vfb2.html#when-asynchrony-saves-time>`_ to two per cent.

Dots are medians over six seeds, lines are the law. At long latencies it is (1 + a)/(2 + a), where a
is the height of the tree that adds up shares: without a barrier nobody waits until updates arrive.
At short latencies only variation is left, as a barrier waits for the slowest of all times.
"""

from math import ceil, log2
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import fedatlas

ACTIVE, DRAWS = 2, 20_000
ROWS, UPDATES, SNAPSHOTS = 24_000, 80_000, 4  # of SVRG in 3 1/3 epochs


def law(latency, work, spread):
    """Time without a barrier over time with one. work: of a share, of each party, (q,)."""
    random, tree = np.random.default_rng(0), ceil(log2(len(work))) * latency
    variation = random.standard_normal((2, DRAWS, ACTIVE, len(work)))
    share, update = work * np.exp(spread * variation - spread**2 / 2)
    # A dominator has its sum when the slowest share was computed and has passed up the tree.
    ready = latency + share.max(axis=2) + tree
    own = np.diagonal(update, axis1=1, axis2=2)[:, :ACTIVE]
    # It goes on when its own block is updated. Dominators do not wait for one another.
    without = 1 / (1 / (ready + own).mean(axis=0)).sum()
    # A barrier waits until the last party has applied the last update that was sent to it.
    applied = ready[:, :, None] + latency + update
    applied[:, range(ACTIVE), range(ACTIVE)] = ready + own
    barrier = applied.max(axis=(1, 2)).mean() / ACTIVE
    snapshots = SNAPSHOTS * 2 * ROWS * work.max() / ACTIVE  # both forms take these
    return (UPDATES * without + snapshots) / (UPDATES * barrier + snapshots)


# %%
# A feature takes 1 µs; the data have 89. A straggler takes 1.4 times as long as the others.

here = Path.cwd().resolve()
clone = next(place for place in (here, *here.parents) if (place / "published").is_dir())
atlas = fedatlas.open_atlas(clone / "published" / "vfb2-networks")
features, places = 89e-6, {"none": None, "passive": -1, "dominator": 0}
LATENCIES = ["0.1", "1", "10", "100", "1000"]


def measured(network):
    """The median over seeds of the ratio of whole times."""
    both = [atlas.sel("vfb2-regions-d1", f"{form}-{network}") for form in ("vfb2", "vfb")]
    first, second = (np.asarray(one["simulated_time"])[..., -1] for one in both)
    return float(np.median(first / second))


figure, panels = plt.subplots(
    2, 3, figsize=(9, 5.4), sharex=True, sharey=True, layout="constrained"
)
errors = []
for row, parties in zip(panels, (4, 8), strict=True):
    for axes, (place, straggler) in zip(row, places.items(), strict=True):
        work = np.full(parties, features / parties)
        if straggler is not None:
            work[straggler] *= 1.4
        for colour, spread in zip(("C0", "C1", "C2"), ("0", "0.3", "1"), strict=True):
            told = [f"l{latency}-s{spread}-{place}-q{parties}" for latency in LATENCIES]
            found = [measured(network) for network in told]
            predicted = [law(float(one) * 1e-6, work, float(spread)) for one in LATENCIES]
            errors += [abs(one / other - 1) for one, other in zip(predicted, found, strict=True)]
            at = [float(one) for one in LATENCIES]
            axes.plot(at, predicted, color=colour, label=f"spread {spread}")
            axes.plot(at, found, "o", color=colour, markersize=4)
        axes.set_title(f"{parties} parties, straggler: {place}", fontsize=10)
        axes.set_xscale("log")
figure.supxlabel("latency of a message over the time of a feature")
figure.supylabel("time without a barrier / with one")
panels[0, 0].legend(fontsize=9)
median, most = np.median(errors), max(errors)
print(f"{len(errors)} networks: {median:.1%} off in the median, {most:.1%} at most")
