"""
Which method is fastest depends on the network
==============================================

Time is computed after training, from what a run counted: nothing is trained again for another
network. Methods whose parties have a clock of their own are left out here: their time is simulated
on one network only.
"""

import matplotlib.pyplot as plt

import fedatlas

latencies = [1e-4, 1e-3, 1e-2, 1e-1, 1.0]
networks = [f"network(latency={one}, bandwidth=1e6, gradient=6e-6)" for one in latencies]
methods = ["fedavg", "scaffold", "fedpage", "gradient-tracking", "tdcd"]

atlas = fedatlas.open_atlas("results")
traces = {method: atlas.sel("demo-crosspaper", method).load() for method in methods}


def seconds(trace, network):
    """Until the median over seeds is at the target."""
    median = fedatlas.along(trace, network).median("seed")
    return float(median["cost"][median["suboptimality"] <= 0.02].min())


figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
for method, trace in traces.items():
    times = [seconds(trace, network) for network in networks]
    axes.plot(latencies, times, "o-", label=method)
axes.set(
    xscale="log",
    yscale="log",
    xlabel="latency of a message (s)",
    ylabel="time until the median of f − f* ≤ 0.02 (s)",
)
axes.legend()
