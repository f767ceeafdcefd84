"""Springs and nonconvex wells of hard chains, distinguished by labels (Carmon et al. 2017, II)."""

import math

labels = "numbers"
formula = "½ (z − y)² if y ≥ 0, else −y · 120 ∫₁ᶻ s² (s − 1)/(1 + s²) ds"


def value(margin: float, label: float) -> float:
    """The loss; a well's integral is t²/2 − t − ½ log(1 + t²) + arctan t, from 1 to the margin."""
    if label >= 0:
        return 0.5 * (margin - label) ** 2
    at_one = -0.5 - 0.5 * math.log(2) + 0.25 * math.pi
    own = margin * margin / 2 - margin - 0.5 * math.log1p(margin * margin) + math.atan(margin)
    return -120 * label * max(own - at_one, 0.0)


def derivative(margin: float, label: float) -> float:
    """Its derivative by the margin; that of a well is exactly 0 at 0, where chains begin."""
    if label >= 0:
        return margin - label
    return -120 * label * margin * margin * (margin - 1) / (1 + margin * margin)
