"""Objectives: of linear models, of networks that predict, min–max ones, and known functions.

Of linear models: which loss, which regulariser, how smooth. The sum over a client's samples is
f_i(x) = 1/M_i Σ_j loss(a_ijᵀx, b_ij) + weight · regulariser(x). A loss or a regulariser is declared
here; its formulas are in `arithmetic.kernels.formulas`.

Sources: robust regression and logistic regression with a nonconvex regulariser, FedPAGE section 6
(arXiv:2108.04755) and VFB² problems (18) and (7) (arXiv:2103.00958; their λ/2 is our weight of the
nonconvex regulariser); l2-regularised logistic and ridge regression, VFB² (13) and (17). AUC
maximisation as a min–max problem: FMGDA eq. (2)–(4), after Ying et al. 2016.
"""

from enum import Enum
from math import inf, sqrt
from typing import Annotated, ClassVar, Literal, Self, TypeAlias

from pydantic import Field, PositiveFloat, model_validator

from fedatlas.files import text_digest
from fedatlas.schema.models import Model


class Loss(Enum):
    """Loss of a margin z = aᵀx against a label b.

    curvature, steepest: its largest absolute second and first derivative. signs: whether labels
    must be ±1; others may be any numbers.
    """

    ROBUST = (1.0, sqrt(0.5), False)  # log(1 + (z - b)²/2)
    LOGISTIC = (0.25, 1.0, True)  # log(1 + exp(-b z))
    SQUARE = (2.0, inf, False)  # (z - b)²

    def __init__(self, curvature: float, steepest: float, signs: bool) -> None:
        self.curvature, self.steepest, self.signs = curvature, steepest, signs


class Regulariser(Enum):
    """Penalty on the parameters, multiplied by the objective's weight.

    curvature, steepest: of one coordinate, its largest absolute second and first derivative.
    """

    NONE = (0.0, 0.0)
    NONCONVEX = (2.0, 3 * sqrt(3) / 8)  # Σ_j x_j² / (1 + x_j²), steepest at x_j² = 1/3
    L2 = (1.0, inf)  # ½ ‖x‖²

    def __init__(self, curvature: float, steepest: float) -> None:
        self.curvature, self.steepest = curvature, steepest


_PARTS = {
    "robust_regression": (Loss.ROBUST, Regulariser.NONE),
    "logistic_nonconvex": (Loss.LOGISTIC, Regulariser.NONCONVEX),
    "logistic_l2": (Loss.LOGISTIC, Regulariser.L2),
    "ridge_regression": (Loss.SQUARE, Regulariser.L2),
}


#: How clients count in f = Σ_i p_i f_i: p_i = 1/N, by their samples, p_i = M_i/M, or as declared,
#: p_i = w_i/Σ_j w_j in the order of clients.
ClientWeights: TypeAlias = Literal["equal", "size"] | tuple[PositiveFloat, ...]


class _OverClients(Model):
    """Objectives that clients around a server may weigh.

    client_weights: how clients count; other federations count theirs equally, or rows.
    """

    # Left out of specifications where all count equally, so that those without the key stay.
    client_weights: ClientWeights = Field(default="equal", exclude_if=lambda own: own == "equal")

    @property
    def _weights_slug(self) -> str:
        """What a slug ends with; nothing where clients count equally."""
        own = self.client_weights
        if own == "equal":
            return ""
        return f"-by-{own if own == 'size' else text_digest(repr(own), 8)}"


class LinearObjective(_OverClients):
    """One of the objectives of linear models.

    weight: of the regulariser, α or λ; none for robust_regression.
    measurements: what runs may measure: accuracy of labels ±1, root mean square error of others.
    name: which loss and regulariser.
    """

    min_max: ClassVar[bool] = False
    measurements: ClassVar[tuple[str, ...]] = (
        "objective",
        "gradient_norm",
        "suboptimality",
        "train_accuracy",
        "test_accuracy",
        "train_rmse",
        "test_rmse",
    )

    name: Literal["robust_regression", "logistic_nonconvex", "logistic_l2", "ridge_regression"]
    weight: float | None = Field(default=None, gt=0)

    @model_validator(mode="after")
    def _weight_where_it_counts(self) -> Self:
        if self.regulariser is Regulariser.NONE and self.weight is not None:
            raise ValueError(f"{self.name} has no regulariser: remove 'weight'")
        if self.regulariser is not Regulariser.NONE and self.weight is None:
            raise ValueError(f"{self.name} needs 'weight', the regularisation weight")
        return self

    @property
    def tasks(self) -> tuple[str, ...]:
        """What data sets suit it."""
        return ("binary",) if self.loss.signs else ("binary", "regression")

    @property
    def slug(self) -> str:
        """A file-name-safe name that no other objective has."""
        own = self.name if self.weight is None else f"{self.name}-{self.weight!r}"
        return own + self._weights_slug

    @property
    def has_constants(self) -> bool:
        """Whether theorems cover it: they are about clients that count equally."""
        return self.client_weights == "equal"

    @property
    def loss(self) -> Loss:
        """The loss of a margin."""
        return _PARTS[self.name][0]

    @property
    def regulariser(self) -> Regulariser:
        """The penalty on the parameters."""
        return _PARTS[self.name][1]

    @property
    def regularisation_weight(self) -> float:
        """The weight as a number: 0 without a regulariser."""
        return self.weight or 0.0

    def smoothness(self, largest_row_norm: float) -> float:
        """Lipschitz constant of every ∇f_ij, given max ‖a_ij‖ (FedPAGE Assumption 2.1)."""
        of_regulariser = self.regulariser.curvature * self.regularisation_weight
        return self.loss.curvature * largest_row_norm**2 + of_regulariser


class AucObjective(Model):
    """AUC maximisation with the squared surrogate, as a min–max problem over a network's scores.

    min over θ = (m, a, b), max over w of the mean of f(m, a, b, w; x, y), see `min_max.auc`; p, the
    share of positives, is that of all clients' samples.

    measurements: what runs measure; `objective` is the pairwise squared loss P(m) of eq. (2).
        Accuracies are ours: positive is what scores above (a + b)/2, see `min_max.auc.accuracy`.
        `dual_variable` is w, `dual_optimum` the best w*(θ).
    model: the network that scores, a function of `fedatlas.architectures`.
    scores: `sigmoid` bounds them to (0, 1); with `linear` ones gradients are unbounded, and runs
        may diverge.
    stationarity: measure `primal_gradient_norm`, ‖∇Φ(θ)‖, too; every record then takes a gradient
        over all training rows, two thirds more time than the rest of it.
    """

    min_max: ClassVar[bool] = True
    tasks: ClassVar[tuple[str, ...]] = ("binary",)

    name: Literal["auc_min_max"]
    model: str
    scores: Literal["sigmoid", "linear"] = "sigmoid"
    stationarity: bool = False

    @property
    def has_constants(self) -> bool:
        """Whether constants of theorems are known, and what these bound is measured."""
        return self.stationarity and (self.model, self.scores) == ("linear", "linear")

    @property
    def measurements(self) -> tuple[str, ...]:
        """What runs measure."""
        return (
            "objective",
            "min_max_objective",
            "dual_variable",
            "dual_optimum",
            "dual_distance",
            "train_auroc",
            "test_auroc",
            "train_accuracy",
            "test_accuracy",
            *(("primal_gradient_norm",) if self.stationarity else ()),
        )

    @property
    def slug(self) -> str:
        """A file-name-safe name that no other objective has."""
        return f"{self.name}-{self.model}-{self.scores}"


class PredictionObjective(_OverClients):
    """What a network's outputs for a sample cost, F(x) = Σ_i p_i f_i(x); f_i: the mean of samples.

    model: a function of `fedatlas.architectures`; hidden: its number of hidden units, if any.
    """

    min_max: ClassVar[bool] = False
    has_constants: ClassVar[bool] = False

    name: str
    model: str
    hidden: int | None = Field(default=None, ge=1)

    @property
    def slug(self) -> str:
        """A file-name-safe name that no other objective has."""
        hidden = "" if self.hidden is None else f"-{self.hidden}"
        return f"{self.name}-{self.model}{hidden}{self._weights_slug}"


#: Top-5 accuracy is measured for more classes than these.
TOP = 5


class ClassificationObjective(PredictionObjective):
    """The mean cross-entropy of a network.

    name: `cross_entropy` of a network with an output for each class; `binary_cross_entropy` of one
        whose single output is the logit of label +1 against −1. With the network `linear` they are
        softmax and logistic regression.

    measurements: of agents they are those of their mean x̄ where nothing else is said;
        `test_accuracy_of_agents` is the mean over agents of each one's own,
        `test_accuracy_of_worst_agent` the lowest of them; `disagreement` is the root mean square
        over agents of ‖x_i − x̄‖. F1 is of label +1, predicted where the logit is positive;
        AUROC, by logits, is left out of rows that are all of one class.
    """

    name: Literal["cross_entropy", "binary_cross_entropy"]

    @property
    def is_binary(self) -> bool:
        """Whether the network has a single output."""
        return self.name == "binary_cross_entropy"

    @property
    def tasks(self) -> tuple[str, ...]:
        """What data sets suit it."""
        return ("binary",) if self.is_binary else ("binary", "multiclass")

    @property
    def measurements(self) -> tuple[str, ...]:
        """What runs may measure."""
        qualities = ("f1", "auroc") if self.is_binary else ("top5_accuracy",)
        return (
            "objective",
            "gradient_norm",
            "train_accuracy",
            "test_accuracy",
            *(f"{rows}_{quality}" for quality in qualities for rows in ("train", "test")),
            "test_accuracy_of_agents",
            "test_accuracy_of_worst_agent",
            "disagreement",
        )


class RegressionObjective(PredictionObjective):
    """The mean of (h(a) − b)² of a network with one output h, for samples a with labels b."""

    tasks: ClassVar[tuple[str, ...]] = ("binary", "regression")
    measurements: ClassVar[tuple[str, ...]] = (
        "objective",
        "gradient_norm",
        "train_rmse",
        "test_rmse",
    )

    name: Literal["squared_error"]


class PolyakObjective(Model):
    """A function that satisfies the Polyak–Łojasiewicz condition, with noisy samples: DP-GT,
    Remark 4. All of its constants are known.

    name:
        `sine_square`: ℓ(x, ξ) = x² + (3 + ξ) sin² x + 2ξ cos x of one number x.
        `noisy_quadratic`: ℓ(x, ξ) = ½ Σ_j c_j (x_j − 1)² + ξ ‖x‖/(1 + ‖x‖), the paper's
            ‖Ax − d‖²/(2n) with AᵀA = n diag(c) and d = A(1, …, 1).
    start: of all numbers of x; ours.
    curvatures: c, of `noisy_quadratic` only; they give it its dimension.

    A sample holds one number, ξ. Over all samples ξ must have the mean 0; agents' means may differ
    with `sine_square`, and with them the f_i. Sampled gradients are not clipped.

    measurements: `objective` is F of the agents' mean, 0 at best; `gradient_norm` is ‖∇F‖ of the
        agent for whom it is largest, as DP-GT's Definition 1 speaks of every agent.
    """

    min_max: ClassVar[bool] = False
    has_constants: ClassVar[bool] = True
    measurements: ClassVar[tuple[str, ...]] = ("objective", "gradient_norm", "disagreement")
    tasks: ClassVar[tuple[str, ...]] = ("synthetic_noise",)

    name: Literal["sine_square", "noisy_quadratic"]
    start: float
    curvatures: tuple[PositiveFloat, ...] = ()

    @model_validator(mode="after")
    def _curvatures_where_they_count(self) -> Self:
        if (self.name == "noisy_quadratic") != bool(self.curvatures):
            raise ValueError("'curvatures' goes with noisy_quadratic, and only with it")
        return self

    @property
    def dimension(self) -> int:
        """d."""
        return len(self.curvatures) or 1

    @property
    def slug(self) -> str:
        """A file-name-safe name that no other objective has."""
        return "-".join([self.name, *map(repr, (self.start, *self.curvatures))])


#: Objectives of networks, which name one as their `model`.
NetworkObjective: TypeAlias = AucObjective | PredictionObjective

Objective: TypeAlias = Annotated[
    LinearObjective
    | AucObjective
    | ClassificationObjective
    | RegressionObjective
    | PolyakObjective,
    Field(discriminator="name"),
]
