"""fedatlas: an atlas of convergence for federated and distributed optimisation."""

__version__ = "0.1.0"
