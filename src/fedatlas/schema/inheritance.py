"""Which keys of the experiment that is being read are another's, by `like`; no file says it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

_INHERITED: ContextVar[Mapping[str, str]] = ContextVar("inherited")


@contextmanager
def inheriting(keys: Mapping[str, str]) -> Iterator[None]:
    """What is validated in this block has these keys from other experiments, key → experiment."""
    token = _INHERITED.set(keys)
    try:
        yield
    finally:
        _INHERITED.reset(token)


def inherited_keys() -> Mapping[str, str]:
    """Those of the block that is being run; none outside of any."""
    return _INHERITED.get({})
