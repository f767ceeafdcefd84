"""One share and one update of the block that a party has: those of `vertical.kernels.updates`."""

from fedatlas.arithmetic.kernels.compilation import compiled
from fedatlas.arithmetic.kernels.formulas import loss_derivative
from fedatlas.federations.vertical.kernels.state import PLAIN, TABLE
from fedatlas.federations.vertical.kernels.updates import settle_block, share, update


@compiled(allocates=False)
def own_share(
    row, starts, dense, bounds, columns, values, rule, scale, drift, touched, applied, w, mean
):
    """w_ℓ·x_{i,ℓ}; applied: how many updates the block has had."""
    return share(
        0, row, starts, dense, bounds, columns, values, rule, scale, drift, touched, applied, w,
        mean,
    )  # fmt: skip


@compiled(allocates=False)
def own_update(
    row, slope, reference, samples, starts, dense, bounds, columns, values, rule, scale, drift,
    touched, applied, w, mean,
):  # fmt: skip
    """The update of the block by ϑ of a sample; reference: (n,) ϑ_ref, (0,) where there is none."""
    difference = slope
    if rule.reference != PLAIN:
        difference = slope - reference[row]
    if rule.reference == TABLE:
        reference[row] = slope
    update(
        0, row, difference, starts, dense, bounds, columns, values, rule, samples, scale, drift,
        touched, applied, w, mean,
    )  # fmt: skip


@compiled(allocates=False)
def settle(starts, rule, scale, drift, touched, applied, w, mean):
    """Sparse coordinates become what they are after all updates of the block."""
    settle_block(starts[0], starts[1], applied, rule, scale[0], drift[0], touched, w, mean)
    scale[0], drift[0] = 1.0, 0.0


@compiled(allocates=False)
def slope_of(loss, margin, label):
    """ϑ = ∂L/∂z of one sample."""
    return loss_derivative(loss, margin, label)
