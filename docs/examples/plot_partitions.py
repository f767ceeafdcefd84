"""
What partitions do to one data set
==================================

Digits among ten clients, by the laws of `the table of partitions <../partitions.html>`_. A bar is a
client, a colour one of the ten classes.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits

from fedatlas.schema.partitions import HorizontalPartition, VerticalPartition
from fedatlas.shards.assignment import share_out
from fedatlas.shards.columns import feature_blocks, inter_party_correlation, rank_correlation

labels = load_digits().target.astype(float)
laws = {
    "shuffled": {},
    "by_class": {},
    "shards": {"shards_per_client": 2},
    "pathological": {"classes_per_client": 2},
    "dirichlet": {"concentration": 0.3},
    "inner_dirichlet": {"concentration": 0.3},
    "dirichlet_sizes": {"concentration": 0.5},
    "power_law_sizes": {"exponent": 1},
}

figure, axes = plt.subplots(2, 4, figsize=(11, 5), sharex=True, layout="constrained")
for place, (assignment, keys) in zip(axes.flat, laws.items(), strict=True):
    spec = HorizontalPartition(assignment=assignment, clients=10, seed=0, **keys)
    held = [labels[rows] for rows in share_out(spec, labels).clients]
    below = np.zeros(10)
    for one in range(10):
        rows = np.array([(own == one).sum() for own in held])
        place.bar(range(10), rows, bottom=below, color=f"C{one}")
        below += rows
    told = ", ".join(f"{key} {value}" for key, value in keys.items())
    place.set_title(f"{assignment}\n{told}", fontsize=9)
figure.supxlabel("client")
figure.supylabel("rows")

# %%
# Columns of parties by correlation: the correlations of breast-cancer's columns, ordered by party.

rows = load_breast_cancer().data
correlation = rank_correlation(rows)
figure, axes = plt.subplots(1, 2, figsize=(7, 3.7), layout="constrained")
for place, beta in zip(axes, (0, 1), strict=True):
    spec = VerticalPartition(parties=3, active=1, assignment="correlation", beta=beta, seed=0)
    blocks = feature_blocks(spec, 30, None, rows)
    order = np.concatenate(blocks)
    place.imshow(np.abs(correlation[np.ix_(order, order)]), vmin=0, vmax=1, cmap="cividis")
    for end in np.cumsum([len(block) for block in blocks])[:-1]:
        place.axhline(end - 0.5, color="white")
        place.axvline(end - 0.5, color="white")
    icor = inter_party_correlation(correlation, blocks)
    place.set(title=f"beta {beta}: Icor {icor:.2f}", xticks=[], yticks=[])
