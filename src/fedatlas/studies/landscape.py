"""The loss surface of a network with two parameters, and its stationary points.

FMGDA, section 5.3 and Figure 1. With F of `federations.min_max.auc` and Φ(m, a, b) = max_w F, the
surface is min_{a,b} Φ(m, a, b) over the network's parameters m = (m_1, m_2), all in float64.

Searches start on a grid and minimise the norm of the gradient inside the range. A search that ends
at a gradient of 0, within the tolerance, has found a stationary point; plateaus count as such. No
search proves that there are no others.
"""

import logging
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from scipy.optimize import least_squares
from torch.autograd.functional import hessian, jacobian
from torch.func import functional_call, vmap

from fedatlas.architectures import architecture
from fedatlas.errors import FedatlasError
from fedatlas.evaluation.tables import (
    Classification,
    StationaryPoint,
    Surface,
    describe_point,
    write_surface,
)
from fedatlas.federations.min_max.engine import AucLoss, Auxiliary, positive_rate
from fedatlas.federations.shards import ClientSamples, read_shard
from fedatlas.schema.objectives import AucObjective
from fedatlas.schema.studies import Landscape

log = logging.getLogger(__name__)

#: Largest gradient norm of a stationary point. Searches for other than degenerate points end far
#: below it.
GRADIENT_TOLERANCE = 1e-9
#: Largest eigenvalue that counts as 0, twice that of a quartic minimum that is found to the
#: gradient's tolerance.
EIGENVALUE_TOLERANCE = 1e-5
STARTS = 16  # starting places of searches along each axis
_SAME_PLACE = 1e-4  # points nearer than this share of the range are one
_SAME_VALUE = 1e-8  # degenerate points whose values are nearer than this are one set
_CHUNK = 1_000_000  # scores that are computed at once on the grid


class AucSurface:
    """Φ and min_{a,b} Φ of a data set and a network with two parameters."""

    def __init__(self, data: ClientSamples, objective: AucObjective) -> None:
        """Take all clients' samples; FedatlasError if they or the network have no such surface."""
        features, labels = data.samples.features, data.samples.label
        if data.samples.layout != "dense" or not isinstance(features, np.ndarray):
            raise FedatlasError(
                f"data set '{data.metadata['dataset']}': a landscape is that of plain numbers, not "
                f"of {data.samples.layout} samples"
            )
        shape = tuple(data.metadata["shape"] or features.shape[1:])
        inputs = torch.tensor(features, dtype=torch.float64).reshape(len(features), *shape)
        module = architecture(objective.model)(shape, 1).double()
        self._shapes = {name: parameter.shape for name, parameter in module.named_parameters()}
        self._sizes = [shape.numel() for shape in self._shapes.values()]
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
        """The best a and b at m, (2,): the mean scores of the two classes."""
        return torch.cat(self._class_means(self._scores(m)))

    def _scores(self, m: torch.Tensor) -> torch.Tensor:
        parts = zip(self._shapes.items(), m.split(self._sizes), strict=True)
        parameters = {name: part.reshape(shape) for (name, shape), part in parts}
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
        # A parabola in w is highest at its slope in 0 over minus its curvature.
        at = Auxiliary(a, b, torch.zeros_like(a))
        slope = self._loss.auxiliary_gradient(h, self._positive, self._share, at).w
        w = slope / (2 * self._loss.p * (1 - self._loss.p))
        return (self._share * self._loss.value(h, self._positive, at._replace(w=w))).sum()


def explore(surface: AucSurface, landscape: Landscape, starts: int = STARTS) -> Surface:
    """The surface over the grid and its stationary points inside it.

    starts: number of starting places of searches along each axis.
    """
    ranges = landscape.first, landscape.second
    first, second = (np.linspace(*limits, landscape.points) for limits in ranges)
    values = _on_grid(surface, first, second)
    shares = (np.arange(starts) + 0.5) / starts
    places = product(*(low + (high - low) * shares for low, high in ranges))
    ended = [_search(surface, np.array(ranges), place) for place in places]
    found = sorted((point for point in ended if point is not None), key=lambda point: point.value)
    lowest = min([float(values.min()), *(point.value for point in found)])
    return Surface(
        lowest=lowest,
        starts=len(ended),
        lost=len(ended) - len(found),
        gradient_tolerance=GRADIENT_TOLERANCE,
        eigenvalue_tolerance=EIGENVALUE_TOLERANCE,
        stationary_points=[
            _described(surface, members, lowest) for members in _grouped(found, _are_one_set)
        ],
        first=first.tolist(),
        second=second.tolist(),
        values=values.tolist(),
    )


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
    return np.asarray(values.reshape(len(second), len(first)))


class _Found(NamedTuple):
    """Where one search ended.

    place: m from the middle of the range, in widths of the range. eigenvalues: of the Hessian,
    (2,), ascending.
    """

    m: np.ndarray
    place: np.ndarray
    value: float
    gradient_norm: float
    eigenvalues: np.ndarray

    @property
    def signs(self) -> tuple[int, ...]:
        """-1, 0 or 1 for each eigenvalue."""
        return tuple(int(np.sign(x)) * (abs(x) > EIGENVALUE_TOLERANCE) for x in self.eigenvalues)

    @property
    def classification(self) -> Classification:
        return _CLASSES.get(self.signs, "degenerate")


_CLASSES: dict[tuple[int, ...], Classification] = {
    (1, 1): "minimum",
    (-1, 1): "saddle",
    (-1, -1): "maximum",
}


def _search(surface: AucSurface, ranges: np.ndarray, start: tuple[float, ...]) -> _Found | None:
    """The stationary point at which a search ends; None if the gradient there is not 0."""
    # Damped steps also reach points that fill a curve, where Newton's matrix is singular.
    ended = least_squares(
        lambda m: jacobian(surface.value, torch.tensor(m)).numpy(),
        start,
        lambda m: _hessian(surface.value, m),
        bounds=ranges.T,
        ftol=None,
        xtol=1e-12,
        gtol=1e-15,
    )
    norm = float(np.linalg.norm(ended.fun))
    if norm > GRADIENT_TOLERANCE:
        return None
    place = (ended.x - ranges.mean(axis=1)) / (ranges[:, 1] - ranges[:, 0])
    value = float(surface.value(torch.tensor(ended.x)))
    return _Found(ended.x, place, value, norm, np.linalg.eigvalsh(_hessian(surface.value, ended.x)))


def _hessian(function: Callable[[torch.Tensor], torch.Tensor], place: np.ndarray) -> np.ndarray:
    return np.asarray(hessian(function, torch.tensor(place)))


def _are_one_place(one: _Found, other: _Found) -> bool:
    return bool((abs(one.place - other.place) < _SAME_PLACE).all())


def _are_one_set(one: _Found, other: _Found) -> bool:
    """Whether two are one point; degenerate ones, which may fill a curve, only share a value."""
    if one.signs != other.signs:
        return False
    if one.classification == "degenerate":
        return abs(one.value - other.value) < _SAME_VALUE
    return _are_one_place(one, other)


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


def _from_middle(point: _Found) -> tuple[float, ...]:
    """A key for sorting; rounded, so that of two equally near points the larger m_1 comes first."""
    return round(float(np.linalg.norm(point.place)), 6), *-point.m


def _described(surface: AucSurface, members: list[_Found], lowest: float) -> StationaryPoint:
    members = sorted(members, key=_from_middle)
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
        points=[group[0].m.tolist() for group in _grouped(members, _are_one_place)],
    )


def compute_landscape(
    rows: Path, objective: AucObjective, landscape: Landscape, output: Path
) -> None:
    """Compute the loss surface of a network with two parameters and its stationary points.

    rows: the shard file of all clients.
    """
    surface = explore(AucSurface(read_shard(rows), objective), landscape)
    write_surface(surface, output)
    for point in surface.stationary_points:
        log.info("%s", describe_point(point))
