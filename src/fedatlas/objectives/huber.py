"""Huber's loss: quadratic near the label, linear beyond (Huber 1964)."""

labels = "numbers"
convex = True
curvature = 1.0
formula = "½ (z − y)² if |z − y| ≤ δ, else δ |z − y| − δ²/2"


def value(margin: float, label: float, delta: float = 1.0) -> float:
    """The loss; delta: from which distance on it is linear."""
    distance = abs(margin - label)
    if distance <= delta:
        return 0.5 * distance * distance
    return delta * (distance - 0.5 * delta)


def derivative(margin: float, label: float, delta: float = 1.0) -> float:
    """Its derivative by the margin."""
    return max(-delta, min(delta, margin - label))


def steepest(delta: float = 1.0) -> float:
    """The largest derivative."""
    return delta
