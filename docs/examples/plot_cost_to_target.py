"""
What each method spends until it is good enough
===============================================

`fedatlas.compare` gives, of every run that measures something, the cost at its first record at a
target or better: geometric means over seeds with 95 % intervals.
"""

import matplotlib.pyplot as plt

import fedatlas

found = fedatlas.compare(
    "results",
    "suboptimality",
    ["exchanges", "bytes", "gradient_evaluations"],
    target=0.01,
    experiments=["demo-crosspaper"],
)
print(found)

# %%
# Behind the table is an `xarray.Dataset` with the cost of every seed. A seed that never reached the
# target costs +inf.

cost = found.dataset["cost_to_target"].sel(cost="bytes")
figure, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
for place, run in enumerate(cost["run"].values):
    axes.plot(cost.sel(run=run), [place] * cost.sizes["seed"], "o", alpha=0.6)
axes.set(xscale="log", xlabel="bytes until f − f* ≤ 0.01, one dot a seed")
axes.set_yticks(range(cost.sizes["run"]), cost["run"].values)
axes.invert_yaxis()
