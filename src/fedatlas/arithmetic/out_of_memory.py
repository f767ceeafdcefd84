"""What tells that memory ran out from other failures."""

#: What oneDNN, torch's library for convolutions on a CPU, says where it finds no room for code that
#: it compiles. It cannot be used by the process from then on, whatever memory there is.
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
