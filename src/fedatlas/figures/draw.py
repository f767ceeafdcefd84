"""An experiment's figure, whatever its kind."""

from matplotlib.figure import Figure as Canvas

from fedatlas.figures import convergence, final, region, scaling, sensitivity, slopes
from fedatlas.figures.style import Shown

_KINDS = {
    "convergence": convergence.compose,
    "region": region.compose,
    "scaling": scaling.compose,
    "final": final.compose,
    "sensitivity": sensitivity.compose,
    "slopes": slopes.compose,
}


def compose(title: str, shown: Shown) -> Canvas:
    """The figure as an object of matplotlib."""
    return _KINDS[shown.figure.kind](title, shown)
