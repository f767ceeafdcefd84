"""
Methods of four papers on common axes
=====================================

The atlas holds the traces of all runs. `fedatlas.plot` draws what the workflow's figures draw:
medians over seeds, and bands from the lowest seed to the highest.
"""

import fedatlas

atlas = fedatlas.open_atlas("results")
atlas.runs()

# %%
# Rounds are each method's own, so methods over parties stand beside others by exchanges.

curves = fedatlas.plot(
    atlas,
    "suboptimality",
    ["exchanges", "bytes", "gradient_evaluations"],
    experiments=["demo-crosspaper"],
)
