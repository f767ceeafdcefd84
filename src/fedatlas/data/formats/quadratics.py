"""Quadratic functions of clients, of declared constants, as rows of least squares."""

from pathlib import Path
from typing import ClassVar, Literal, NamedTuple, Self

import numpy as np
from pydantic import Field, NonNegativeFloat, PositiveFloat, model_validator

from fedatlas.arithmetic.randomness import named_stream
from fedatlas.arithmetic.samples import Samples
from fedatlas.data.datasets import Dataset, Files
from fedatlas.data.formats.synthetic_clients import COLUMN
from fedatlas.schema.models import Model


class Quadratics(Model):
    """f_i(x) = ½ xᵀA_i x − b_iᵀx + c_i of client i, for all of which the constants are exact.

    Every A_i has eigenvalues from μ to L, and so has their mean, whose extreme ones are these. The
    mean's others rise geometrically between μ + δ and L − δ, in directions drawn at random. There
    the A_i differ from it by symmetric matrices, drawn as normal ones and centred; they do not
    commute. x* has a random direction. Client i has d rows: A_i = 2/d Σ_j a_ij a_ijᵀ, so that f_i
    is the mean of (a_ijᵀx − y_ij)², and c_i is what that leaves. The column `client` says whose a
    row is.

    clients: N. smoothness, convexity: L and μ, of every f_i and of f.
    hessian_dissimilarity: δ, the largest ‖A_i − A‖, A being their mean.
    gradient_dissimilarity: ζ at the optimum, 1/N Σ_i ‖∇f_i(x*)‖² = ζ².
    distance: ‖x*‖; runs start at 0.
    flat: in so many directions, drawn at random, no f_i has a slope; in the others all is as above.
        f then satisfies the Polyak–Łojasiewicz condition with μ, and is not strongly convex.
    seed: of all.
    """

    seed: int = Field(ge=0)
    clients: int = Field(ge=1)
    smoothness: PositiveFloat
    convexity: PositiveFloat
    hessian_dissimilarity: NonNegativeFloat = 0.0
    gradient_dissimilarity: NonNegativeFloat = 0.0
    distance: PositiveFloat = 1.0
    # Left out of specifications without it, so that those stay as they are.
    flat: int = Field(default=0, ge=0, exclude_if=lambda own: not own)

    @model_validator(mode="after")
    def _constants_are_possible(self) -> Self:
        spread = self.smoothness - self.convexity
        if spread < 0:
            raise ValueError("'convexity' must be at most 'smoothness'")
        if self.hessian_dissimilarity > spread / 2:
            raise ValueError(
                f"'hessian_dissimilarity' must be at most (L − μ)/2 = {spread / 2:g}, as all A_i "
                "have eigenvalues from μ to L"
            )
        if self.clients == 1 and (self.hessian_dissimilarity or self.gradient_dissimilarity):
            raise ValueError("a single client does not differ from the mean: 'clients' must be 2")
        return self


class MadeFunctions(Dataset):
    """Rows of clients whose functions have declared constants; the column `client` says whose.

    unscaled: who is not scaled, in an error.
    """

    files_of_split: ClassVar[Files] = "no files"
    unscaled: ClassVar[str]

    @model_validator(mode="after")
    def _is_as_declared(self) -> Self:
        if self.task != "regression" or [*self.splits] != ["train"]:
            raise ValueError(
                f"'format: {self.format}' has 'task: regression' and the split train alone"
            )
        if self.standardise or self.scale_labels is not None:
            raise ValueError(
                f"{self.unscaled} not scaled: constants would not be the declared ones"
            )
        return self

    @property
    def kept(self) -> tuple[str, ...]:
        return (COLUMN,)


class QuadraticsDataset(MadeFunctions):
    """quadratics: the numbers of the model; `features` is d."""

    unscaled: ClassVar[str] = "quadratics are"

    format: Literal["quadratics"]
    quadratics: Quadratics

    @model_validator(mode="after")
    def _has_room(self) -> Self:
        made = self.quadratics
        fewest = 3 if made.hessian_dissimilarity else 2 if made.smoothness > made.convexity else 1
        if self.features - made.flat < fewest:
            raise ValueError(
                f"'features' must be at least {fewest + made.flat}, for L, μ and δ to differ"
            )
        return self

    def read(self, split: str, raw: list[Path]) -> Samples:
        return rows_of(make_functions(self.quadratics, self.features))


class Functions(NamedTuple):
    """A (N, d, d), the gradients at the optimum (N, d), and the optimum x* (d,)."""

    hessians: np.ndarray
    gradients: np.ndarray
    optimum: np.ndarray


def make_functions(made: Quadratics, features: int) -> Functions:
    """The functions, of d = features numbers; b_i = A_i x* − ∇f_i(x*)."""
    if made.flat:
        return _flattened(made, features)
    random, d = named_stream(made.seed, "quadratics"), features
    direction = random.standard_normal(d)
    optimum = made.distance * direction / np.linalg.norm(direction)
    low, high, apart = made.convexity, made.smoothness, made.hessian_dissimilarity
    basis, _ = np.linalg.qr(random.standard_normal((d, d)))
    middle = np.geomspace(low + apart, high - apart, max(d - 2, 0))
    eigenvalues = np.array([low, *middle, high][:d])
    mean = (basis * eigenvalues) @ basis.T
    drawn = random.standard_normal((made.clients, len(middle), len(middle)))
    differences = _centred(drawn + drawn.transpose(0, 2, 1))
    if apart:
        differences *= apart / np.linalg.norm(differences, 2, axis=(1, 2)).max()
    inner = basis[:, 1:-1]
    hessians = mean + (inner @ differences @ inner.T if apart else np.zeros((made.clients, d, d)))
    gradients = _centred(random.standard_normal((made.clients, d)))
    if made.gradient_dissimilarity:
        gradients *= made.gradient_dissimilarity / np.sqrt((gradients**2).sum(1).mean())
    return Functions(hessians, gradients * bool(made.gradient_dissimilarity), optimum)


def _flattened(made: Quadratics, features: int) -> Functions:
    """The functions of d − flat numbers in as many directions drawn at random; x* lies in these."""
    inner = make_functions(made.model_copy(update={"flat": 0}), features - made.flat)
    random = named_stream(made.seed, "directions")
    basis = np.linalg.qr(random.standard_normal((features, features)))[0][:, made.flat :]
    hessians, gradients, optimum = inner
    return Functions(basis @ hessians @ basis.T, gradients @ basis.T, basis @ optimum)


def _centred(numbers: np.ndarray) -> np.ndarray:
    """Of mean 0 over clients, the first axis."""
    return np.asarray(numbers - numbers.mean(axis=0))


def rows_of(functions: Functions) -> Samples:
    """d rows of each client, whose mean of (aᵀx − y)² is its function, up to a constant."""
    clients, d, _ = functions.hessians.shape
    eigenvalues, vectors = np.linalg.eigh(functions.hessians)
    # Rounding leaves about 1e-16 L of what is 0 in a flat direction.
    steep = eigenvalues > 1e-12 * eigenvalues.max()
    eigenvalues = np.where(steep, eigenvalues, 0.0)
    scale = np.sqrt(d / 2 * eigenvalues)[:, :, None]
    rows = scale * vectors.transpose(0, 2, 1)  # a_ij = √(dλ_j/2) v_j
    # Residuals r at x* with 2/d Σ_j r_j a_j = ∇f_i(x*).
    slopes = vectors.transpose(0, 2, 1) @ functions.gradients[:, :, None]
    residuals = d / 2 * np.divide(slopes, scale, where=scale > 0, out=np.zeros_like(slopes))
    labels = rows @ functions.optimum - residuals[:, :, 0]
    owners = np.repeat(np.arange(clients), d).tolist()
    return Samples.numbered(labels.ravel(), rows.reshape(-1, d), {COLUMN: owners})
