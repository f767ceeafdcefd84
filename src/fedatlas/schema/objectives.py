"""Objectives: of linear models, of networks that predict, min–max ones, and known functions.

An objective of a linear model has a loss, a regulariser and a smoothness. For a client it is
f_i(x) = 1/M_i Σ_j loss(a_ijᵀx, b_ij) + weight · regulariser(x). The losses and regularisers here
have their formulas in `arithmetic.kernels.formulas`; files of `fedatlas.objectives` hold their own.
`objective_classes` has the names of all objectives.

Sources: robust regression and logistic regression with a nonconvex regulariser, FedPAGE section 6
(arXiv:2108.04755) and VFB² problems (18) and (7) (arXiv:2103.00958; their λ/2 is our weight of the
nonconvex regulariser); l2-regularised logistic and ridge regression, VFB² (13) and (17). AUC
maximisation as a min–max problem: FMGDA eq. (2)–(4), after Ying et al. 2016.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias

from pydantic import BeforeValidator, Discriminator, Field, PositiveFloat, Tag, model_validator
from pydantic_core import PydanticKnownError

from fedatlas.architectures import architecture_module
from fedatlas.errors import FedatlasError
from fedatlas.files import text_digest
from fedatlas.objectives import own_losses
from fedatlas.schema.losses import Loss, MarginLoss, Nonsmooth, OwnLinearLoss, Regulariser
from fedatlas.schema.models import Model

_PARTS = {
    "robust_regression": (Loss.ROBUST, Regulariser.NONE),
    "logistic": (Loss.LOGISTIC, Regulariser.NONE),
    "logistic_nonconvex": (Loss.LOGISTIC, Regulariser.NONCONVEX),
    "logistic_l2": (Loss.LOGISTIC, Regulariser.L2),
    "least_squares": (Loss.SQUARE, Regulariser.NONE),
    "ridge_regression": (Loss.SQUARE, Regulariser.L2),
}


#: How clients count in f = Σ_i p_i f_i: p_i = 1/N, by their samples, p_i = M_i/M, or as declared,
#: p_i = w_i/Σ_j w_j in the order of clients.
ClientWeights: TypeAlias = Literal["equal", "size"] | tuple[PositiveFloat, ...]


class _OverClients(Model):
    """Objectives in which clients around a server may have weights.

    client_weights: how clients are weighted. Other federations weight all equally, or by rows.
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
    """An objective of linear models.

    weight: weight of the regulariser, α or λ. Objectives without a regulariser have no such key:
        robust_regression, logistic, least_squares. A user's own loss has a regulariser if one is
        declared.
    parameters: parameters of a user's own loss that differ from the file's defaults.
    nonsmooth: ψ, a term beside f that has no gradient, for methods that take proximal steps.
    measurements: what runs may measure: accuracy for labels ±1, else root mean square error. With
        ψ, `gradient_norm` is the norm of (x − prox(x − ∇f(x)/L))·L.
    name: the loss and the regulariser; may be a file of `fedatlas.objectives`.
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

    name: str
    weight: float | None = Field(default=None, gt=0)
    parameters: dict[str, float] = Field(default={}, exclude_if=lambda own: not own)
    nonsmooth: Nonsmooth | None = Field(default=None, exclude_if=lambda own: own is None)

    @model_validator(mode="after")
    def _keys_where_they_count(self) -> Self:
        _require_kind(self)
        if self.name not in _PARTS:
            known = own_losses()[self.name].parameters
            if unknown := sorted(self.parameters.keys() - known.keys()):
                raise ValueError(
                    f"'parameters' has {unknown[0]}, which {self.name} lacks; it has "
                    f"{', '.join(known) or 'none'}"
                )
            return self
        if self.parameters:
            raise ValueError(f"{self.name} has no parameters: remove 'parameters'")
        if self.regulariser is Regulariser.NONE and self.weight is not None:
            raise ValueError(f"{self.name} has no regulariser: remove 'weight'")
        if self.regulariser is not Regulariser.NONE and self.weight is None:
            raise ValueError(f"{self.name} needs 'weight', the regularisation weight")
        return self

    def __hash__(self) -> int:
        return hash(self.slug)

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Those of the objectives that are declared here."""
        return tuple(_PARTS)

    @property
    def tasks(self) -> tuple[str, ...]:
        """What data sets suit it."""
        own = {"signs": ("binary",), "counts": ("regression",)}
        return own.get(self.loss.labels, ("binary", "regression"))

    @property
    def slug(self) -> str:
        """A file-name-safe name that no other objective has."""
        told = [self.name, *([] if self.weight is None else [repr(self.weight)])]
        told += [f"{key}-{value!r}" for key, value in sorted(self.parameters.items())]
        if self.nonsmooth is not None:
            told += [str(value) for value in self.nonsmooth.model_dump().values()]
        return "-".join(told) + self._weights_slug

    @property
    def has_constants(self) -> bool:
        """Whether theorems cover it: they are about smooth f and clients that count equally."""
        smooth = self.name in _PARTS or own_losses()[self.name].has_curvature
        return smooth and self.nonsmooth is None and self.client_weights == "equal"

    @property
    def on_gpus(self) -> bool:
        """Whether GPUs compute it, too."""
        return self.name in _PARTS and self.nonsmooth is None

    @property
    def code(self) -> tuple[str, ...]:
        """Modules that it is computed by besides those that all runs have."""
        return () if self.name in _PARTS else (own_losses()[self.name].module,)

    @property
    def loss(self) -> MarginLoss:
        """The loss of a margin."""
        if self.name in _PARTS:
            return _PARTS[self.name][0]
        given = {**own_losses()[self.name].parameters, **self.parameters}
        return OwnLinearLoss(self.name, tuple(given.items()))

    @property
    def regulariser(self) -> Regulariser:
        """The penalty on the parameters."""
        if self.name in _PARTS:
            return _PARTS[self.name][1]
        if self.weight is None:
            return Regulariser.NONE
        return Regulariser[own_losses()[self.name].regulariser.upper()]

    @property
    def regularisation_weight(self) -> float:
        """The weight as a number: 0 without a regulariser."""
        return self.weight or 0.0

    @property
    def convexity(self) -> float | None:
        """μ of every f_ij: the weight of an l2 regulariser of a convex loss, None of others."""
        strong = self.regulariser is Regulariser.L2 and self.loss.convex
        return self.regularisation_weight if strong else None

    def smoothness(self, largest_row_norm: float) -> float:
        """Lipschitz constant of every ∇f_ij, given max ‖a_ij‖ (FedPAGE Assumption 2.1).

        Infinite where a loss of one's own declares no curvature.
        """
        of_regulariser = self.regulariser.curvature * self.regularisation_weight
        return self.loss.curvature * largest_row_norm**2 + of_regulariser


class AucObjective(Model):
    """AUC maximisation with the squared surrogate, as a min–max problem over a network's scores.

    min over θ = (m, a, b), max over w of the mean of f(m, a, b, w; x, y), see `min_max.auc`. The
    share p of positives is taken over all clients' samples.

    measurements: what runs measure. `objective` is the pairwise squared loss P(m) of eq. (2).
        Accuracies are our own addition: a sample counts as positive if it scores above (a + b)/2,
        see `min_max.auc.accuracy`. `dual_variable` is w, `dual_optimum` the best w*(θ).
    model: the network that scores, a function of `fedatlas.architectures`.
    scores: `sigmoid` bounds scores to (0, 1). With `linear`, gradients are unbounded, and runs may
        diverge.
    stationarity: also measure `primal_gradient_norm`, ‖∇Φ(θ)‖. Every record then takes a gradient
        over all training rows, which needs two thirds more time than the rest of the record.
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

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """The one there is."""
        return ("auc_min_max",)

    @property
    def code(self) -> tuple[str, ...]:
        """Modules that it is computed by besides those that all runs have."""
        return (architecture_module(self.model),)

    @property
    def slug(self) -> str:
        """A file-name-safe name that no other objective has."""
        return f"{self.name}-{self.model}-{self.scores}"


class PredictionObjective(_OverClients):
    """The loss of a network's outputs, F(x) = Σ_i p_i f_i(x), where f_i is a mean over samples.

    model: a function of `fedatlas.architectures`; hidden: its number of hidden units, if any.
    """

    min_max: ClassVar[bool] = False
    has_constants: ClassVar[bool] = False

    name: str
    model: str
    hidden: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _is_of_its_kind(self) -> Self:
        _require_kind(self)
        return self

    @property
    def code(self) -> tuple[str, ...]:
        """Modules that it is computed by besides those that all runs have."""
        own = () if self.name in self.names() else (own_losses()[self.name].module,)
        return (architecture_module(self.model), *own)

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Those of the objectives that are declared here."""
        return ()

    @property
    def slug(self) -> str:
        """A file-name-safe name that no other objective has."""
        hidden = "" if self.hidden is None else f"-{self.hidden}"
        return f"{self.name}-{self.model}{hidden}{self._weights_slug}"


#: Top-5 accuracy is measured for more classes than these.
TOP = 5


class ClassificationObjective(PredictionObjective):
    """The mean cross-entropy of a network, or another loss of classes.

    name: `cross_entropy` for a network with an output for each class; `binary_cross_entropy` for
        one whose single output is the logit of label +1 against −1. With the network `linear` they
        are softmax and logistic regression. The name may also be a file of `fedatlas.objectives`
        whose labels are classes or signs.

    measurements: on graphs they are measured at the agents' mean x̄, except these:
        `test_accuracy_of_agents` is the mean of the agents' own accuracies,
        `test_accuracy_of_worst_agent` the lowest of them, and `disagreement` the root mean square
        over agents of ‖x_i − x̄‖. F1 is for label +1, which a positive logit predicts. AUROC uses
        logits, and is missing for rows that are all of one class.
    """

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Those of the objectives that are declared here."""
        return ("cross_entropy", "binary_cross_entropy")

    @property
    def is_binary(self) -> bool:
        """Whether the network has a single output."""
        if self.name in self.names():
            return self.name == "binary_cross_entropy"
        return own_losses()[self.name].labels == "signs"

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
    """The mean of (h(a) − b)² of a network with one output h, for samples a with labels b.

    name: `squared_error`, or a file of `fedatlas.objectives` whose labels are numbers.
    """

    tasks: ClassVar[tuple[str, ...]] = ("binary", "regression")
    measurements: ClassVar[tuple[str, ...]] = (
        "objective",
        "gradient_norm",
        "train_rmse",
        "test_rmse",
    )

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """The one that is declared here."""
        return ("squared_error",)


class PolyakObjective(Model):
    """A function that satisfies the Polyak–Łojasiewicz condition, with noisy samples.

    It follows DP-GT, Remark 4. All of its constants are known.

    name:
        `sine_square`: ℓ(x, ξ) = x² + (3 + ξ) sin² x + 2ξ cos x of one number x.
        `noisy_quadratic`: ℓ(x, ξ) = ½ Σ_j c_j (x_j − 1)² + ξ ‖x‖/(1 + ‖x‖), the paper's
            ‖Ax − d‖²/(2n) with AᵀA = n diag(c) and d = A(1, …, 1).
    start: where all coordinates of x start; our own choice.
    curvatures: c, for `noisy_quadratic` only; its length is the dimension.

    A sample holds one number, ξ, whose mean over all samples must be 0. With `sine_square` the
    means of agents, and so the f_i, may differ. Sampled gradients are not clipped.

    measurements: `objective` is F at the agents' mean; its best value is 0. `gradient_norm` is
        ‖∇F‖ of the agent for whom it is largest, since DP-GT's Definition 1 is about every agent.
    """

    min_max: ClassVar[bool] = False
    has_constants: ClassVar[bool] = True
    code: ClassVar[tuple[str, ...]] = ()
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

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Both."""
        return ("sine_square", "noisy_quadratic")

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

_CLASSES = (
    LinearObjective,
    AucObjective,
    ClassificationObjective,
    RegressionObjective,
    PolyakObjective,
)


def objective_classes() -> dict[str, type[Model]]:
    """The model of every objective, by its name: those declared here, and users' files.

    FedatlasError names a file with the name of one that is declared here.
    """
    found: dict[str, type[Model]] = {name: each for each in _CLASSES for name in each.names()}
    for name, own in own_losses().items():
        if name in found:
            raise FedatlasError(f"{own.file}: fedatlas has an objective '{name}': rename the file")
        of_network = RegressionObjective if own.labels == "numbers" else ClassificationObjective
        found[name] = LinearObjective if own.kind == "linear" else of_network
    return found


def _require_kind(objective: Any) -> None:
    if not isinstance(objective, objective_classes().get(objective.name, type(None))):
        raise ValueError(f"'{objective.name}' is no {type(objective).__name__}")


def _named(value: Any) -> Any:
    """Refuse a mapping whose name is none, as unions of known names do."""
    if isinstance(value, Mapping):
        if "name" not in value:
            raise PydanticKnownError("union_tag_not_found", {"discriminator": "'name'"})
        if value["name"] not in objective_classes():
            told = {"tag": str(value["name"]), "expected_tags": ", ".join(objective_classes())}
            raise PydanticKnownError("union_tag_invalid", {"discriminator": "'name'", **told})
    elif not isinstance(value, Model):
        raise PydanticKnownError("dict_type")
    return value


def _class_name(value: Any) -> str:
    own = objective_classes()[value["name"]] if isinstance(value, Mapping) else type(value)
    return own.__name__


Objective: TypeAlias = Annotated[
    Annotated[LinearObjective, Tag("LinearObjective")]
    | Annotated[AucObjective, Tag("AucObjective")]
    | Annotated[ClassificationObjective, Tag("ClassificationObjective")]
    | Annotated[RegressionObjective, Tag("RegressionObjective")]
    | Annotated[PolyakObjective, Tag("PolyakObjective")],
    Discriminator(_class_name),
    BeforeValidator(_named),
]
