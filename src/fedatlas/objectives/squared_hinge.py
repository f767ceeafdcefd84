"""The squared hinge: 0 beyond the margin 1, as of L2-loss support vector machines."""

labels = "signs"
convex = True
curvature = 1.0
formula = "½ max(0, 1 − yz)²"


def value(margin: float, label: float) -> float:
    """The loss."""
    return 0.5 * max(0.0, 1.0 - label * margin) ** 2


def derivative(margin: float, label: float) -> float:
    """Its derivative by the margin."""
    return -label * max(0.0, 1.0 - label * margin)
