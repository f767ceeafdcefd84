"""
How claims came out
======================

Verdicts are a table, a row for each claim and each of its cases, with the effect that was
found, its interval, and the smallest effect that counts.
"""

import matplotlib.pyplot as plt
import pandas as pd

claims = pd.read_csv("results/claims.csv")
whole = claims[claims["case"].isna()]
whole.groupby(["question", "outcome"]).size().unstack(fill_value=0)

# %%
# The cases of one claim of the demo: how much less gradient norm FedPAGE has than SCAFFOLD, in
# decades. An interval to the right of the dashed line reproduces the claim.

cases = claims[(claims["claim"] == "demo-fedpage/fedpage-scaffold") & claims["case"].notna()]
figure, axes = plt.subplots(figsize=(7, 2.4), layout="constrained")
spread = [cases["estimate"] - cases["low"], cases["high"] - cases["estimate"]]
axes.errorbar(cases["estimate"], cases["case"], xerr=spread, fmt="o", capsize=4)
axes.axvline(0, color="grey", linewidth=0.8)
axes.axvline(-cases["smallest"].iloc[0], color="grey", linestyle="--", linewidth=0.8)
axes.set(xlabel="how far FedPAGE is ahead (decades of ‖∇f‖)")
axes.margins(y=0.3)
