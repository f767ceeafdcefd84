"""The loss surface of a network with two parameters, and where it is stationary.

FMGDA, section 5.3 and Figure 1. With F of `problems.auc` and Φ(m, a, b) = max_w F, the surface is
min_{a,b} Φ(m, a, b) over the network's parameters m = (m_1, m_2). Everything is in float64.

Searches start on a grid of their own and follow the gradient norm down, inside the range; a search
that ends at a gradient of 0 has found a stationary point. Plateaus, where the gradient is within
the tolerance of 0, count as such. No search proves that there are no others.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
import torch
from scipy.optimize import least_squares
from torch.autograd.functional import hessian, jacobian
from torch.func import functional_call, vmap

from fedatlas.architectures import architecture
from fedatlas.errors import FedatlasError
from fedatlas.evaluation.stationary_points import Classification, StationaryPoint, Surface
from fedatlas.federations.client_shards import ClientSamples
from fedatlas.federations.min_max.auc import AucLoss, Auxiliary, positive_rate
from fedatlas.schema.objectives import AucObjective
from fedatlas.schema.studies import Landscape

#: What counts as stationary. A search ends far below this unless its point is degenerate.
GRADIENT_TOLERANCE = 1e-9
#: What counts as an eigenvalue of 0: that of a quartic minimum, found to the gradient's tolerance,
#: is half of it.
EIGENVALUE_TOLERANCE = 1e-5
#: Searches start from so many places along either axis.
STARTS = 16
# Points nearer to each other than this share of the range are one.
_SAME_PLACE = 1e-4
# Degenerate points whose values differ by less are one set.
_SAME_VALUE = 1e-8
# Scores computed at once on the grid.
_CHUNK = 1_000_000


class AucSurface:
    """Φ and min_{a,b} Φ of a data set and a network with two parameters."""

    def __init__(self, data: ClientSamples, objective: AucObjective) -> None:
        """Take all clients' samples; FedatlasError if there is no such surface."""
        inputs, labels = _samples(data)
        module = architecture(objective.model)(tuple(inputs.shape[1:]), 1).double()
        self._names = [name for name, _ in module.named_parameters()]
        self._shapes = [parameter.shape for parameter in module.parameters()]
        self._sizes = [shape.numel() for shape in self._shapes]
        if sum(self._sizes) != 2:
            raise FedatlasError(
                f"a landscape needs a network of two parameters, but '{objective.model}' has "
                f"{sum(self._sizes)}"
            )
        self._module, self._inputs = module, inputs
        self._sigmoid = objective.scores == "sigmoid"
        self._positive = torch.as_tensor(labels > 0)
        self._loss = AucLoss(positive_rate(data))
        self._share = torch.from_numpy(data.row_weights)
        self.samples = len(labels)

    def phi(self, theta: torch.Tensor) -> torch.Tensor:
        """Φ = max_w F at (m_1, m_2, a, b)."""
        return self._highest(self._scores(theta[:2]), theta[2:3], theta[3:4])

    def value(self, m: torch.Tensor) -> torch.Tensor:
        """min_{a,b} Φ at (m_1, m_2)."""
        h = self._scores(m)
        return self._highest(h, *self._class_means(h))

    def best_auxiliary(self, m: torch.Tensor) -> torch.Tensor:
        """The a and b, (2,), that are best at m: the mean scores of either class."""
        return torch.cat(self._class_means(self._scores(m)))

    def _scores(self, m: torch.Tensor) -> torch.Tensor:
        parts = zip(self._names, m.split(self._sizes), self._shapes, strict=True)
        parameters = {name: part.reshape(shape) for name, part, shape in parts}
        outputs: torch.Tensor = functional_call(self._module, parameters, (self._inputs,))
        h = outputs.squeeze(-1)
        return torch.sigmoid(h) if self._sigmoid else h

    def _class_means(self, h: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        of_positive, of_negative = (
            (self._share * members * h).sum(-1, keepdim=True) / (self._share * members).sum()
            for members in (self._positive, ~self._positive)
        )
        return of_positive, of_negative

    def _highest(self, h: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        # A parabola in w: its slope at 0 and its curvature tell where it is highest.
        at = Auxiliary(a, b, torch.zeros_like(a))
        slope = self._loss.auxiliary_gradient(h, self._positive, self._share, at).w
        w = slope / (2 * self._loss.p * (1 - self._loss.p))
        return (self._share * self._loss.value(h, self._positive, at._replace(w=w))).sum()


def explore(surface: AucSurface, landscape: Landscape, starts: int = STARTS) -> Surface:
    """The surface over the grid and its stationary points inside it.

    starts: searches start from so many places along either axis.
    """
    first, second = (
        np.linspace(*limits, landscape.points) for limits in (landscape.first, landscape.second)
    )
    values = _on_grid(surface, first, second)
    ended = [_search(surface, landscape, start) for start in _starts(landscape, starts)]
    found = sorted((point for point in ended if point is not None), key=lambda point: point.value)
    lowest = min([float(values.min()), *(point.value for point in found)])
    near = _Nearness(landscape)
    return Surface(
        lowest=lowest,
        starts=len(ended),
        lost=len(ended) - len(found),
        gradient_tolerance=GRADIENT_TOLERANCE,
        eigenvalue_tolerance=EIGENVALUE_TOLERANCE,
        stationary_points=[
            _described(surface, members, lowest, near) for members in _grouped(found, near.alike)
        ],
        first=first.tolist(),
        second=second.tolist(),
        values=values.tolist(),
    )


def _samples(data: ClientSamples) -> tuple[torch.Tensor, np.ndarray]:
    """Inputs (n, *shape), float64, and labels (n,)."""
    features, metadata = data.samples.features, data.metadata
    if data.samples.layout != "dense" or not isinstance(features, np.ndarray):
        raise FedatlasError(
            f"data set '{metadata['dataset']}': a landscape is that of plain numbers, not of "
            f"{data.samples.layout} samples"
        )
    shape = tuple(metadata["shape"] or features.shape[1:])
    inputs = torch.tensor(features, dtype=torch.float64)
    return inputs.reshape(len(features), *shape), data.samples.label


def _on_grid(surface: AucSurface, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """(k, k) values, a row for each of `second`."""
    places = torch.from_numpy(np.stack(np.meshgrid(first, second), axis=-1).reshape(-1, 2))
    with torch.no_grad():
        chunk = max(1, _CHUNK // surface.samples)
        values = vmap(surface.value, chunk_size=chunk)(places).numpy()
    finite = np.isfinite(values)
    if not finite.all():
        place = ", ".join(f"{x:g}" for x in places[int(finite.argmin())])
        raise FedatlasError(f"the landscape is not finite at ({place}): choose a smaller range")
    grid: np.ndarray = values.reshape(len(second), len(first))
    return grid


def _starts(landscape: Landscape, starts: int) -> Iterator[tuple[float, ...]]:
    shares = (np.arange(starts) + 0.5) / starts
    yield from product(
        *(low + (high - low) * shares for low, high in (landscape.first, landscape.second))
    )


@dataclass(frozen=True)
class _Found:
    """Where one search ended; eigenvalues: of the Hessian there, (2,), ascending."""

    m: np.ndarray
    value: float
    gradient_norm: float
    eigenvalues: np.ndarray

    @property
    def signs(self) -> tuple[int, ...]:
        """-1, 0 or 1 for either eigenvalue."""
        return tuple(int(np.sign(x)) * (abs(x) > EIGENVALUE_TOLERANCE) for x in self.eigenvalues)

    @property
    def classification(self) -> Classification:
        return _CLASSES.get(self.signs, "degenerate")


_CLASSES: dict[tuple[int, ...], Classification] = {
    (1, 1): "minimum",
    (-1, 1): "saddle",
    (-1, -1): "maximum",
}


def _search(surface: AucSurface, landscape: Landscape, start: tuple[float, ...]) -> _Found | None:
    """The stationary point that a search ends at; None where the gradient is not 0."""
    low, high = zip(landscape.first, landscape.second, strict=True)
    # Damped steps also reach points that fill a curve, where Newton's matrix is singular.
    ended = least_squares(
        lambda m: _gradient(surface, m),
        start,
        lambda m: _hessian(surface.value, m),
        bounds=(low, high),
        ftol=None,
        xtol=1e-12,
        gtol=1e-15,
    )
    norm = float(np.linalg.norm(ended.fun))
    if norm > GRADIENT_TOLERANCE:
        return None
    value = float(surface.value(torch.tensor(ended.x)))
    return _Found(ended.x, value, norm, np.linalg.eigvalsh(_hessian(surface.value, ended.x)))


def _gradient(surface: AucSurface, m: np.ndarray) -> np.ndarray:
    gradient: np.ndarray = jacobian(surface.value, torch.tensor(m)).numpy()
    return gradient


def _hessian(function: Callable[[torch.Tensor], torch.Tensor], place: np.ndarray) -> np.ndarray:
    matrix: np.ndarray = hessian(function, torch.tensor(place)).numpy()
    return matrix


class _Nearness:
    """What counts as one point, and what as one set."""

    def __init__(self, landscape: Landscape) -> None:
        limits = np.array([landscape.first, landscape.second])
        self._widths, self._middle = limits[:, 1] - limits[:, 0], limits.mean(axis=1)

    def same_place(self, one: _Found, other: _Found) -> bool:
        return bool((abs(one.m - other.m) < _SAME_PLACE * self._widths).all())

    def alike(self, one: _Found, other: _Found) -> bool:
        """One point; of degenerate points, which may fill a curve, one value."""
        if one.signs != other.signs:
            return False
        if one.classification == "degenerate":
            return abs(one.value - other.value) < _SAME_VALUE
        return self.same_place(one, other)

    def from_middle(self, point: _Found) -> tuple[float, ...]:
        """For sorting; rounded, so that of two as near the one with the larger m_1 comes first."""
        distance = np.linalg.norm((point.m - self._middle) / self._widths)
        return round(float(distance), 6), *-point.m


def _grouped(found: list[_Found], same: Callable[[_Found, _Found], bool]) -> list[list[_Found]]:
    groups: list[list[_Found]] = []
    for point in found:
        for group in groups:
            if same(group[0], point):
                group.append(point)
                break
        else:
            groups.append([point])
    return groups


def _described(
    surface: AucSurface, members: list[_Found], lowest: float, near: _Nearness
) -> StationaryPoint:
    members = sorted(members, key=near.from_middle)
    point = members[0]
    with torch.no_grad():
        a, b = surface.best_auxiliary(torch.tensor(point.m)).tolist()
    of_phi = np.linalg.eigvalsh(_hessian(surface.phi, np.array([*point.m, a, b])))
    return StationaryPoint(
        classification=point.classification,
        m=point.m.tolist(),
        a=a,
        b=b,
        value=point.value,
        above_lowest=point.value - lowest,
        gradient_norm=max(member.gradient_norm for member in members),
        eigenvalues=point.eigenvalues.tolist(),
        eigenvalues_of_phi=of_phi.tolist(),
        starts=len(members),
        points=[group[0].m.tolist() for group in _grouped(members, near.same_place)],
    )
