"""Computing in parts what does not fit into memory; the numbers are the same up to rounding.

A gradient is a sum over samples, so it can be added up over parts of a minibatch if every sample
passes the network on its own. The first computation of its kind that runs out of memory is tried
once more in parts of a sixteenth; all later ones of that kind begin so, also in a resumed run. The
log and the trace's warnings say so.
"""

import gc
import logging
import resource
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import torch

from fedatlas.arithmetic.out_of_memory import ONEDNN_SIGN, MemoryRecord, is_out_of_memory
from fedatlas.errors import FedatlasError

log = logging.getLogger(__name__)

T = TypeVar("T")

#: Our choice: what ran out of memory is tried again in so many parts.
PARTS = 16

#: The remedy for gradients.
SMALLER_BATCH = "lower batch_size, initial_batch_size or the number of clients"


@dataclass(frozen=True)
class Task:
    """A computation over samples, for messages.

    what: such as "gradient". parameters: their number. clients: at once. samples: of each client.
    shape: of a sample. remedy: what to lower if it does not fit. coupled: why parts would give
        other numbers, if they would.
    """

    what: str
    model: str
    parameters: int
    clients: int
    samples: int
    shape: tuple[int, ...]
    remedy: str
    coupled: str = ""

    @property
    def kind(self) -> str:
        """Tasks of one kind are computed in parts from the first failure on."""
        return f"{self.what} of {self.model}"

    def __str__(self) -> str:
        of = f"{self.clients} clients × " if self.clients > 1 else ""
        return (
            f"{self.kind} ({self.parameters:,} parameters) on {of}{self.samples} samples of shape "
            f"{self.shape}"
        )


class Memory(MemoryRecord):
    """The memory of a device: what runs out of it is computed in parts."""

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self.device = device

    def fit(self, task: Task, compute: Callable[[int | None], T]) -> T:
        """compute(None), or, since that does not fit, compute(n) with at most n samples at once.

        FedatlasError names the batch, the model, the device and what to lower if that fails, too.
        """
        at_once = self.at_once.get(task.kind)
        found, failure = self._attempt(task, compute, at_once)
        if failure and at_once is None:
            at_once = self._in_parts_from_now_on(task, failure)
            found, failure = self._attempt(task, compute, at_once)
        if failure:
            raise FedatlasError(
                f"{failure}, even with {at_once} at once: {task.remedy}, or use a device with more "
                "memory"
            )
        return found[0]

    def _attempt(
        self, task: Task, compute: Callable[[int | None], T], at_once: int | None
    ) -> tuple[list[T], str]:
        """A list of the result; empty, with a message, if memory ran out."""
        try:
            return [compute(at_once)], ""
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            log.info("%s", str(error).partition("\n")[0])
            if ONEDNN_SIGN in str(error):
                torch.backends.mkldnn.set_flags(False)
            failure = f"{task} ran out of memory on {described(self.device)}"
        # Not in the handler: the exception holds frames, and so their tensors.
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        return [], failure

    def _in_parts_from_now_on(self, task: Task, failure: str) -> int:
        samples = task.clients * task.samples
        if task.coupled:
            raise FedatlasError(
                f"{failure}. It cannot be computed in parts: {task.coupled}; {task.remedy}, or use "
                "a device with more memory"
            )
        if samples == 1:
            raise FedatlasError(f"{failure}; use a device with more memory or a smaller model")
        at_once = -(-samples // PARTS)
        self.at_once[task.kind] = at_once
        self.warnings[task.kind] = (
            f"{failure}; from then on with at most {at_once} samples at once, which is the same up "
            "to rounding"
        )
        log.warning("%s", self.warnings[task.kind])
        return at_once


def in_blocks(
    compute: Callable[[slice, slice], tuple[torch.Tensor, torch.Tensor]],
    clients: int,
    samples: int,
    at_once: int,
    together: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Outputs (S, b, …) side by side and gradients (S, d) added up, of a batch in blocks.

    compute: both, of a block of clients and places of their samples, at most `at_once` in all.
    together: whether clients may share a block; they do where each has a sample in it.
    """
    group = clients if together and at_once >= clients else 1
    width = at_once // group
    outputs, gradients = [], []
    for first in range(0, clients, group):
        own = []
        for start in range(0, samples, width):
            places = slice(start, min(start + width, samples))
            found, gradient = compute(slice(first, first + group), places)
            own.append(found)
            if start == 0:
                total = gradient
            else:
                total += gradient
        outputs.append(torch.cat(own, dim=1))
        gradients.append(total)
    return torch.cat(outputs), torch.cat(gradients)


def described(device: torch.device) -> str:
    """The device and its memory, for messages."""
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
        name = torch.cuda.get_device_name(device)
        return f"{device} ({name}, {_gigabytes(free)} of {_gigabytes(total)} free)"
    if device.type != "cpu":
        return str(device)
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    limited = "" if limit == resource.RLIM_INFINITY else f", limited to {_gigabytes(limit)}"
    return f"cpu ({_machine_memory()}{limited})"


def _machine_memory() -> str:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        known = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines}
        return f"{_gigabytes(known['MemAvailable'])} of {_gigabytes(known['MemTotal'])} available"
    except (OSError, ValueError, KeyError, IndexError):  # no Linux
        return "unknown memory"


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.1f} GB"
