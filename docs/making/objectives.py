"""The reference of objectives: formulas, labels, constants, parameters; from the registry."""

from collections.abc import Iterator

from fedatlas.markdown import code, table, text
from fedatlas.objectives import own_losses
from fedatlas.schema.losses import L1, Box, GroupLasso
from fedatlas.schema.objectives import LinearObjective, objective_classes

_OPENING = """
Experiments and `fedatlas.train` name them: `objective: {name: …}`.
[Configuration](configuration.md) has the other keys.
[An objective of your own](../adding/objective.md) is one file.

## Linear models

```{math}
f(x) = Σ_i p_i f_i(x),  f_i(x) = 1/M_i Σ_j ℓ(a_ijᵀx, b_ij) + λ r(x)
```

z is the margin aᵀx, y the label, λ the `weight`. *Curvature* is the largest |ℓ″|, by which L is
known.
"""

_TERMS = """
### Terms without a gradient

`nonsmooth: {name: …}` adds ψ(x) to an objective of linear models, for methods that take
[proximal steps](methods.md#method-fedmid): the lasso is `least_squares` with `l1`, the elastic net
`ridge_regression` with `l1`.
"""

_OTHERS = {
    "cross_entropy": ("−log softmax_y(z)", "classes"),
    "binary_cross_entropy": ("log(1 + exp(−yz))", "±1"),
    "squared_error": ("(z − y)²", "numbers"),
    "auc_min_max": ("a min–max problem, see [AUC](../adding/auc.md)", "±1"),
    "sine_square": ("x² + (3 + ξ) sin² x + 2ξ cos x", "none; a sample is ξ"),
    "noisy_quadratic": ("½ Σ_j c_j (x_j − 1)² + ξ ‖x‖/(1 + ‖x‖)", "none; a sample is ξ"),
}
_LABELS = {"signs": "±1", "counts": "0, 1, 2, …"}


def page() -> str:
    """The page in Markdown, for the folder docs/reference."""
    linear = [name for name, each in objective_classes().items() if each is LinearObjective]
    heads = ("name", "ℓ(z, y)", "r(x)", "labels", "convex", "curvature", "parameters")
    parts = ["# Objectives", _OPENING.strip(), table(heads, [_linear(name) for name in linear])]
    terms = [[code(name), _formula(each.formula)] for name, each in _terms()]
    parts += [_TERMS.strip(), table(("name", "ψ(x)"), terms)]
    others = [[code(name), *_other(name)] for name in objective_classes() if name not in linear]
    parts += ["## Others", table(("name", "of a sample", "labels"), others)]
    return "\n\n".join(parts) + "\n"


def _terms() -> Iterator[tuple[str, type[L1 | GroupLasso | Box]]]:
    yield from (("l1", L1), ("group_lasso", GroupLasso), ("box", Box))


def _linear(name: str) -> list[str]:
    own = own_losses().get(name)
    needs = own is None and _has_regulariser(name)
    objective = LinearObjective(name=name, weight=1.0 if needs or own else None)
    loss = objective.loss
    formula = own.formula if own else loss.formula
    parameters = own.parameters if own else {}
    return [
        code(name),
        _formula(formula),
        _formula(objective.regulariser.formula) + (", if weighted" if own else ""),
        _LABELS.get(loss.labels, loss.labels),
        "yes" if loss.convex else "no",
        "" if loss.curvature == float("inf") else f"{loss.curvature:g}",
        text(", ".join(f"{key} = {value:g}" for key, value in parameters.items())),
    ]


def _has_regulariser(name: str) -> bool:
    try:
        LinearObjective(name=name)
    except ValueError:
        return True
    return False


def _other(name: str) -> tuple[str, str]:
    own = own_losses().get(name)
    formula, labels = (own.formula, own.labels) if own else _OTHERS[name]
    return formula if name == "auc_min_max" else _formula(formula), labels


def _formula(unicode: str) -> str:
    return f"{{math}}`{unicode}`" if unicode else ""
