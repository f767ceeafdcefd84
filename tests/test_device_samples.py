"""Samples as networks take them: normalised, and laid out as convolutions compute fastest."""

import numpy as np
import pytest
import torch
from scipy import sparse
from torch import nn

from fedatlas.arithmetic.samples import Samples
from fedatlas.arithmetic.torch_device import DeviceSamples, Minibatch
from fedatlas.errors import FedatlasError

CPU = torch.device("cpu")
SAMPLES = 6
MEAN, DEVIATION = [100.0, 50.0, 20.0], [50.0, 20.0, 40.0]


def images(shape):
    values = np.random.default_rng(0).integers(0, 256, (SAMPLES, int(np.prod(shape))), np.uint8)
    metadata = {
        "dataset": "made-up images",
        "shape": shape,
        "normalisation": {"mean": MEAN[: shape[-3]], "deviation": DEVIATION[: shape[-3]]},
    }
    return Samples(np.arange(SAMPLES), np.ones(SAMPLES), values), metadata


@pytest.mark.parametrize("shape", [(1, 7, 6), (3, 7, 6), (2, 1, 7, 6), (2, 3, 7, 6)])
@pytest.mark.parametrize("rows", [slice(1, 5), torch.tensor([4, 0, 3])], ids=["slice", "rows"])
def test_images_are_normalised_by_channel_and_have_their_channels_last(shape, rows):
    # A single channel, too: whatever its stride is there are no other numbers in between, but
    # torch chooses by it how it computes convolutions.
    samples, metadata = images(shape)
    taken = DeviceSamples(samples, metadata, CPU, torch.float32).at(rows)
    mean, deviation = (np.array(each[: shape[-3]])[:, None, None] for each in (MEAN, DEVIATION))
    expected = (samples.features.reshape(SAMPLES, *shape)[rows] - mean) / deviation
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


def test_samples_that_networks_do_not_take_are_refused():
    metadata = {"dataset": "toy", "shape": [3]}
    label = np.arange(3.0)
    pixels = Samples(np.arange(3), label, np.zeros((3, 3), np.uint8))
    with pytest.raises(FedatlasError, match=r"'toy': networks would see pixels.*'normalise'"):
        DeviceSamples(pixels, metadata, CPU, torch.float32)
    many = Samples(np.arange(3), label, sparse.csr_array((3, 200_000_000)))
    with pytest.raises(FedatlasError, match=r"'toy': networks take dense .* are too many"):
        DeviceSamples(many, metadata, CPU, torch.float32)
