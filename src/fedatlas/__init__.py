"""fedatlas: an atlas of convergence for federated and distributed optimisation.

`open_atlas` opens the file that the workflow joins all traces in; `compare` and `interpolate` put
its runs on common axes.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedatlas.atlas.comparison import compare, interpolate
    from fedatlas.atlas.reading import open_atlas

__version__ = "0.1.0"
__all__ = ["__version__", "compare", "interpolate", "open_atlas"]

# Imported when first asked for: every step of the workflow imports this package, few need xarray.
_HOMES = {
    "compare": "fedatlas.atlas.comparison",
    "interpolate": "fedatlas.atlas.comparison",
    "open_atlas": "fedatlas.atlas.reading",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
