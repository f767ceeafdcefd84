"""What does not fit is computed in parts: the same numbers, one try, and it is said.

Memory really runs out here: `large_batches` runs in child processes whose address space is limited.
"""

import json
import os
import re
import subprocess
import sys
import weakref
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import large_batches
from fedatlas.arithmetic.clipping import Clipping
from fedatlas.arithmetic.device_samples import DeviceSamples, Minibatch
from fedatlas.arithmetic.memory import Memory, Task, in_blocks
from fedatlas.arithmetic.out_of_memory import is_out_of_memory
from fedatlas.cli import training as commands
from fedatlas.errors import FedatlasError
from fedatlas.federations.horizontal import torch_engine as on_torch
from fedatlas.training.loop import train

pytestmark = pytest.mark.usefixtures("one_thread")

IN_PARTS = ("auc", "auc float32", "agents", "clipped agents", "silos", "linear", "evaluation")
TASK = Task("gradient", "network", 7, 1, 40, (3,), "lower batch_size")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Of a process that had little memory for all cases, and then for training."""
    if not Path("/proc/self/statm").exists():
        pytest.skip("how much memory a process has is read as Linux tells it")
    sources = [str(Path(large_batches.__file__).parent), str(Path(on_torch.__file__).parents[3])]
    folder = tmp_path_factory.mktemp("limited")
    large_batches.write_training_shards(folder)
    # Large blocks go back to the kernel at once: what was freed is no room beyond the limit.
    added = {"PYTHONPATH": os.pathsep.join(sources), "MALLOC_MMAP_THRESHOLD_": "65536"}
    outcome = subprocess.run(
        [sys.executable, large_batches.__file__, folder],
        env=os.environ | added,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert outcome.returncode == 9, outcome.stderr
    assert "on 4 clients × 5000 samples" in outcome.stderr
    return folder


@pytest.fixture(scope="module")
def limited(folder):
    """What came out of all cases where memory is limited, and what was said."""
    said = json.loads((folder / "said.json").read_text())
    results = {name: np.load(folder / f"{name}.npy") for name in said if not said[name]["error"]}
    return results, said


def assert_near(ours, expected, relative):
    assert ours.shape == expected.shape
    assert 0 < np.abs(expected).max() < np.inf
    assert np.abs(ours - expected).max() <= relative * np.abs(expected).max()


# ------------------------------------------------------------------------ memory that runs out


@pytest.mark.parametrize("name", IN_PARTS)
def test_what_ran_out_of_memory_comes_out_the_same(limited, name):
    results, said = limited
    make, options, _ = large_batches.CASES[name]
    memory, compute = make(**options)
    expected = compute().numpy()
    assert memory.state == {"at_once": {}, "warnings": {}}  # here it fits
    assert said[name]["state"]["at_once"] != {}  # there it did not
    assert said[name]["error"] == ""
    assert_near(results[name], expected, 4e-6 if expected.dtype == np.float32 else 1e-12)


def test_the_batch_the_model_and_the_device_are_named(limited):
    _, said = limited
    (warning,) = said["auc"]["state"]["warnings"].values()
    batch = r"gradient of cnn_28x28 \(25,711 parameters\) on 400 samples of shape \(1, 28, 28\)"
    device = r"cpu \(\d+\.\d GB of \d+\.\d GB available, limited to \d\.\d GB\)"
    then = "from then on with at most 25 samples at once, which is the same up to rounding"
    assert re.fullmatch(f"{batch} ran out of memory on {device}; {then}", warning)
    (warning,) = said["linear"]["state"]["warnings"].values()
    assert "(100 parameters) on 2 clients × 13333 samples of shape (100,)" in warning
    assert sorted(said["silos"]["state"]["warnings"]) == [
        "gradient of lstm of silo 0",
        "gradient of lstm of silo 1",
    ]


def test_samples_that_influence_each_other_are_not_taken_apart(limited):
    _, said = limited
    assert "BatchNorm normalises a sample by all others" in said["normalising"]["error"]
    assert "lower batch_size" in said["normalising"]["error"]
    assert said["normalising"]["state"]["at_once"] == {}


def test_what_fails_in_parts_too_is_one_clear_error(limited):
    _, said = limited
    error = said["hopeless"]["error"]
    assert error.startswith("gradient of huge (1 parameters) on 2 clients × 10 samples of shape")
    assert error.endswith("even with 2 at once: lower batch_size, or use a device with more memory")
    assert "a smaller model" in said["one sample"]["error"]


def test_onednn_is_given_up_where_it_ran_out_of_memory(limited):
    results, said = limited
    if not said["convolving"]["state"]["at_once"]:
        pytest.skip("oneDNN found room for its code under every limit")
    images = large_batches.IMAGES.double()
    weight, bias = torch.full((32, 3, 3, 3), 0.1).double(), torch.full((32,), 0.1).double()
    expected = torch.nn.functional.conv2d(images, weight, bias).numpy()
    assert_near(results["convolving"], expected, 1e-6)


def test_a_resumed_run_is_told_and_the_trace_says_so(folder, monkeypatch):
    in_parts = []
    in_blocks = on_torch.in_blocks

    def counted(*arguments, **options):
        in_parts.append(1)
        return in_blocks(*arguments, **options)

    monkeypatch.setattr(on_torch, "in_blocks", counted)
    spec, policy = large_batches.SPEC, large_batches.training_policy(folder)
    whole = train(spec, folder, folder / "whole.nc", device=large_batches.TORCH_ON_CPU)
    assert not in_parts
    resumed = train(
        spec,
        folder,
        folder / "resumed.nc",
        device=large_batches.TORCH_ON_CPU,
        seeds=policy,
    )
    assert in_parts
    *of_steps, warning = json.loads(resumed.attrs["warnings"])
    assert of_steps == json.loads(whole.attrs["warnings"])
    # Of the process that failed, not of this one, whose memory is not limited.
    assert re.search(r"ran out of memory on cpu \(.*, limited to .*\); from then on with", warning)
    np.testing.assert_allclose(resumed["objective"], whole["objective"], rtol=1e-12)


# ----------------------------------------------------------------------------- gradients in parts


KINDS = [
    "gradient of cnn_28x28",
    "clipped gradient of cnn_28x28",
    "gradient of linear of silo 0",
    "gradient of linear of silo 1",
    "gradient of logistic_nonconvex",
    "evaluation of cnn_28x28",
]
ENGINES = {
    "auc": lambda **options: large_batches.auc(9, **options),
    "agents": lambda **options: large_batches.agents(None, 9, **options),
    "agents l1": lambda **options: large_batches.agents(Clipping("l1", 0.3), 9, **options),
    "silos": lambda **options: large_batches.silos(15, model="linear", **options),
    "linear": lambda dtype, vectorised: large_batches.linear(15),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("vectorised", [False, True])
@pytest.mark.parametrize("name", ENGINES)
@settings(max_examples=4, deadline=None)
@given(at_once=st.integers(1, 20))
def test_parts_of_any_size_add_up_to_the_whole(name, vectorised, dtype, at_once):
    options = {"dtype": dtype, "vectorised": vectorised}
    _, compute = ENGINES[name](**options)
    memory, in_parts = ENGINES[name](**options)
    # As a resumed run is told.
    memory.restore({"at_once": dict.fromkeys(KINDS, at_once)})
    assert_near(in_parts().numpy(), compute().numpy(), 1e-6 if dtype == torch.float32 else 1e-12)


@given(st.integers(1, 9), st.integers(1, 20), st.integers(1, 200), st.booleans())
def test_blocks_hold_every_sample_once_and_no_more_than_they_may(
    clients, samples, at_once, together
):
    numbers = torch.arange(clients * samples).reshape(clients, samples)
    seen = torch.zeros_like(numbers)

    def compute(of_clients, of_samples):
        block = seen[of_clients, of_samples]
        assert 1 <= block.numel() <= at_once
        assert together or len(block) == 1
        block += 1
        part = numbers[of_clients, of_samples]
        return part, part.sum(1, keepdim=True)

    outputs, gradients = in_blocks(compute, clients, samples, at_once, together)
    assert (seen == 1).all()
    assert torch.equal(outputs, numbers)
    assert torch.equal(gradients, numbers.sum(1, keepdim=True))


# ----------------------------------------------------------------------------------- the policy


def test_only_the_first_of_a_kind_fails():
    memory, asked = Memory(torch.device("cpu")), []

    def compute(at_once):
        asked.append(at_once)
        if at_once is None:
            raise MemoryError
        return "done"

    assert memory.fit(TASK, compute) == "done"
    assert memory.fit(TASK, compute) == "done"
    assert asked == [None, 3, 3]
    other = Memory(torch.device("cpu"))
    other.restore(json.loads(json.dumps(memory.state)))
    assert other.fit(TASK, compute) == "done"
    assert asked == [None, 3, 3, 3]
    assert other.state == memory.state


def test_other_failures_are_not_about_memory():
    memory, asked = Memory(torch.device("cpu")), []

    def compute(at_once):
        asked.append(at_once)
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    with pytest.raises(RuntimeError, match="mat1"):
        memory.fit(TASK, compute)
    assert asked == [None]
    assert memory.state == Memory(torch.device("cpu")).state


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError(), True),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate"), True),
        (RuntimeError("std::bad_alloc"), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to"), True),
        (RuntimeError("mmap: Cannot allocate memory"), True),
        (RuntimeError("size mismatch"), False),
        (FedatlasError("out of memory"), False),
    ],
)
def test_what_is_about_memory(error, expected):
    assert is_out_of_memory(error) is expected


def test_a_batch_that_is_asked_for_in_parts_is_not_kept_whole():
    data = large_batches.images(6, 2)
    samples = DeviceSamples(data.samples, data.metadata, torch.device("cpu"), torch.float32)
    batch = Minibatch(samples, torch.tensor([[0, 3, 2], [7, 6, 6]]))
    kept = weakref.ref(batch[...])
    assert batch[...] is kept()  # for another gradient at the same samples
    assert torch.equal(batch[1:, :2], batch[...][1:, :2])
    part = batch[0:1, 1:3]
    assert kept() is None
    assert torch.equal(part, samples.at(torch.tensor([[3, 2]])))
    assert batch.shape == tuple(batch[...].shape) == (2, 3, 1, 28, 28)


def test_a_lack_of_memory_elsewhere_is_one_line_too(tmp_path, monkeypatch):
    def lack(*_, **__):
        raise RuntimeError("CUDA out of memory. Tried to allocate 2 GiB.\nMore words")

    monkeypatch.setattr("fedatlas.training.loop.train", lack)
    spec = large_batches.SPEC.model_dump(mode="json")
    expected = r"^test-small/fedpage/only: ran out of .* device 'cpu': CUDA out .*GiB\. Give the"
    with pytest.raises(FedatlasError, match=expected):
        commands.train(spec, tmp_path, tmp_path / "trace.nc", device="cpu")
