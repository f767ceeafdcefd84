"""Running out of memory: how it shows, and what a run remembers of it. Needs no torch."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from fedatlas.errors import FedatlasError

#: What oneDNN, torch's library for convolutions on a CPU, says if it finds no room for code that it
#: compiles. The process cannot use it from then on, whatever memory there is.
ONEDNN_SIGN = "could not create a primitive"

# Of RuntimeErrors: torch's allocators on a CPU and a GPU, CUDA itself, its libraries, C++.
_SIGNS = (
    ONEDNN_SIGN,
    "out of memory",
    "can't allocate memory",
    "cannot allocate memory",
    "alloc_failed",
    "bad_alloc",
)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether the error says that memory, of the machine or of a GPU, ran out."""
    if isinstance(error, MemoryError):
        return True
    text = str(error).lower()
    # torch.OutOfMemoryError is a RuntimeError, too; by their text torch need not be imported.
    return isinstance(error, RuntimeError) and any(sign in text for sign in _SIGNS)


@contextmanager
def memory_explained(run: str, device: str) -> Iterator[None]:
    """Say what to do where memory runs out beside gradients and evaluations, which say more."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        first = str(error).splitlines()[0].rstrip(".") if str(error) else "no room"
        raise FedatlasError(
            f"{run}: ran out of memory beside gradients and evaluations, on device '{device}': "
            f"{first}. Give the job more memory, or lower the numbers of clients and samples"
        ) from None


@dataclass
class MemoryRecord:
    """What has run out of memory and is computed in parts from then on, by kind of task.

    at_once: how many samples are computed on at once. warnings: for the trace.
    """

    at_once: dict[str, int] = field(default_factory=dict)
    warnings: dict[str, str] = field(default_factory=dict)

    @property
    def state(self) -> dict[str, Any]:
        """What a resumed run must be told, as JSON data."""
        return asdict(self)

    def restore(self, state: dict[str, Any]) -> None:
        """Take over what an interrupted run found out, if it did."""
        self.at_once |= state.get("at_once", {})
        self.warnings |= state.get("warnings", {})
