"""Training on other devices beside training on the CPU: the same costs, measurements to rounding.

Without a GPU, torch's arithmetic on the CPU is the other device: that of linear models is compiled
elsewhere.
"""

import numpy as np
import pytest
import torch

from fedatlas.arithmetic.torch_device import visible_gpus
from fedatlas.schema.quantities import COSTS, MEASUREMENTS
from fedatlas.training.loop import train
from small_federations import AGENTS, CLASSES, DIRECTED, SMALL, TRACKING, small, small_shards

DEVICES = ["cpu:0", *(gpu.name for gpu in visible_gpus())]
# Over parties, and of linear models on graphs, all is computed on the CPU.
LINEAR = ("fedavg", "fedprox", "scaffold", "fedpage", "ef21", "diana", "marina", "ef14")
LINEAR += ("power_of_choice", "dp_local_sgd")
METHODS = [*LINEAR, *(method for method, (data, *_) in SMALL.items() if data == "images")]
CHANGES = {"rounds": 12, "record_every": 4}


def compared(spec, shards, folder, device, tolerance):
    expected = train(spec, shards, folder / "cpu.nc")
    found = train(spec, shards, folder / "other.nc", device=device)
    assert found.attrs["device"] == device
    for name in set(expected.variables) & {*COSTS, *MEASUREMENTS} - {"wall_time"}:
        apart = 0 if name in COSTS else tolerance
        np.testing.assert_allclose(found[name], expected[name], apart, apart, err_msg=name)
    return expected


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("method", METHODS)
def test_a_method_gives_the_same_trace(tmp_path, method, device):
    spec, shards = small(method, **CHANGES), small_shards(tmp_path, method)
    trace = compared(spec, shards, tmp_path, device, 1e-10 if method in LINEAR else 2e-3)
    assert (trace["objective"][:, -1] != trace["objective"][:, 0]).all()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("method", LINEAR)
def test_networks_around_a_server_give_the_same_trace(tmp_path, method, device):
    spec = small(method, **CHANGES, objective=CLASSES, partition=AGENTS)
    compared(spec, small_shards(tmp_path, "growing_samples_descent"), tmp_path, device, 2e-3)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("form", ["compact", "literal", "provable"])
def test_gradient_tracking_of_networks_gives_the_same_trace(tmp_path, form, device):
    method = "quantised_gradient_descent"  # whose data are images
    hyper = TRACKING | {"form": form, "clipping": "l1" if form == "provable" else "none"}
    hyper |= {"gradient_bound": 5.0} if form == "provable" else {}
    spec = small("dp_gradient_tracking", **CHANGES, graphs=DIRECTED, objective=CLASSES)
    spec = spec.model_copy(update={"hyper_parameters": hyper})
    compared(spec, small_shards(tmp_path, method), tmp_path, device, 2e-3)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("model", "shape"),
    [("resnet18", (1, 28, 28)), ("cnn_28x28", (1, 28, 28)), ("resnet18_halves", (3, 32, 16))],
)
def test_networks_have_the_same_gradients(model, shape, device):
    """Three outputs make an odd number of parameters, so that the second client's begin at one."""
    from fedatlas.architectures import architecture
    from fedatlas.arithmetic.batched_network import BatchedNetwork

    found = []
    for where in ("cpu", device):
        network = BatchedNetwork(
            lambda: architecture(model)(shape, 3), torch.device(where), torch.float64
        )
        flat = torch.stack([network.initial(seed) for seed in range(2)])
        inputs = torch.from_numpy(np.random.default_rng(0).normal(size=(2, 3, *shape)))
        statistics = network.initial_statistics().repeat(2, 1)
        outputs, gradients = network.gradients(
            flat,
            inputs.to(where),
            lambda outputs, *_: torch.arange(outputs.numel()).to(outputs).view(outputs.shape) + 1,
            statistics,
        )
        parts = (flat, outputs, gradients, statistics)
        found.append([part.cpu().numpy() for part in parts])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-9, atol=1e-9 * np.abs(one).max(initial=0))
