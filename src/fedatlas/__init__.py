"""fedatlas: an atlas of convergence for federated and distributed optimisation.

`open_atlas` opens the file that the workflow joins all traces in; `Atlas.sel` gives a run's trace.
`compare` and `interpolate` put all runs on common axes, `along` the seeds of one; `profile`
compares methods over many problems; `plot` draws what figures draw. `train` trains one run in a
notebook, without a workflow; `import_runs` takes runs made elsewhere.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedatlas.notebook import train
    from fedatlas.store.atlas import open_atlas
    from fedatlas.store.comparison import compare, interpolate
    from fedatlas.store.foreign import import_runs
    from fedatlas.store.plotting import plot
    from fedatlas.store.profiling import profile
    from fedatlas.store.views import along

__version__ = "0.1.0"
__all__ = [
    "__version__",
    "along",
    "compare",
    "import_runs",
    "interpolate",
    "open_atlas",
    "plot",
    "profile",
    "train",
]

# Imported when first asked for: every step of the workflow imports this package, few need xarray.
_HOMES = {
    "along": "fedatlas.store.views",
    "compare": "fedatlas.store.comparison",
    "import_runs": "fedatlas.store.foreign",
    "interpolate": "fedatlas.store.comparison",
    "open_atlas": "fedatlas.store.atlas",
    "plot": "fedatlas.store.plotting",
    "profile": "fedatlas.store.profiling",
    "train": "fedatlas.notebook",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
