"""Samples as networks take them: normalised, and laid out as convolutions compute fastest."""

import numpy as np
import pytest
import torch
from torch import nn

from fedatlas.arithmetic.samples import Samples
from fedatlas.arithmetic.torch_device import DeviceSamples, Minibatch

CPU = torch.device("cpu")
SAMPLES = 6


def images(shape):
    values = np.random.default_rng(0).integers(0, 256, (SAMPLES, int(np.prod(shape))), np.uint8)
    metadata = {
        "dataset": "made-up images",
        "shape": shape,
        "normalisation": {"mean": [100.0] * shape[-3], "deviation": [50.0] * shape[-3]},
    }
    return Samples(np.arange(SAMPLES), np.ones(SAMPLES), values), metadata


@pytest.mark.parametrize("shape", [(1, 7, 6), (3, 7, 6), (2, 1, 7, 6), (2, 3, 7, 6)])
@pytest.mark.parametrize("rows", [slice(1, 5), torch.tensor([4, 0, 3])], ids=["slice", "rows"])
def test_images_have_their_channels_last(shape, rows):
    # A single channel, too: whatever its stride is there are no other numbers in between, but
    # torch chooses by it how it computes convolutions.
    samples, metadata = images(shape)
    taken = DeviceSamples(samples, metadata, CPU, torch.float32).at(rows)
    expected = (samples.features.reshape(SAMPLES, *shape)[rows] - 100.0) / 50.0
    np.testing.assert_allclose(taken.numpy(), expected, rtol=1e-6)
    of_one_view = taken if len(shape) == 3 else taken[:, 0]
    convolved = nn.Conv2d(shape[-3], 4, 3)(of_one_view)
    assert convolved.stride(1) == 1


def test_a_minibatch_of_clients_has_its_channels_last():
    samples, metadata = images((1, 7, 6))
    held = DeviceSamples(samples, metadata, CPU, torch.float32)
    batch = Minibatch(held, torch.tensor([[4, 0, 3], [1, 2, 5]]))
    for part in (batch[...][1], batch[1, :], batch[1, torch.tensor([0, 2])]):
        assert nn.Conv2d(1, 4, 3)(part).stride(1) == 1
