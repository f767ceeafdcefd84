"""What several test files share."""

import gc
import os
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Collecting makes many objects and little garbage, which is looked for again and again otherwise.
gc.disable()
# Workers share the cores; child processes inherit it.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Property tests that name no number of examples draw so many; `make fuzz` takes "thorough". All
# examples of a test share its folder.
SHARED = [HealthCheck.function_scoped_fixture]
settings.register_profile("quick", max_examples=10, deadline=None, suppress_health_check=SHARED)
settings.register_profile("thorough", parent=settings.get_profile("quick"), max_examples=1000)
settings.load_profile("quick")
# Files whose tests share a workflow's run take minutes: they come first, or one worker ends late.
# The second of them needs nothing that the first compiles, and that then is there for all others,
# as is what the third compiles for parties.
FIRST = (
    *("test_workflow.py", "test_fuzz_parsers", "test_workflow_vertical"),
    *("test_failing_surroundings", "test_interruption", "test_workflow_"),
)
# For data that cannot be passed on, and what depends on the processor.
MAY_SKIP = ("FEDATLAS_MIRROR", "oneDNN found room")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files first, in their order."""
    items.sort(key=lambda item: [*map(item.path.name.startswith, FIRST), True].index(True))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In CI a test that skips for want of a program fails: nobody reads that it skipped."""
    report = yield
    known = any(reason in str(report.longrepr) for reason in MAY_SKIP)
    if report.skipped and not known and os.environ.get("CI"):
        report.outcome = "failed"
    return report


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="module")
def one_thread():
    """One thread of torch: two on busy cores wait for each other ten times as long as they work."""
    import torch  # here, as most tests need none of it

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def workflow(finished, tmp_path):
    """A copy of the module's finished workflow."""
    return finished.clone(tmp_path / "copy")


@pytest.fixture
def toy_project(monkeypatch):
    """The networks of the project in that folder are found beside the package's own."""
    from fedatlas import architectures
    from fedatlas.extensions import VARIABLE, open_projects

    monkeypatch.setenv(VARIABLE, "")
    monkeypatch.setattr(architectures, "__path__", [*architectures.__path__])
    open_projects([Path(__file__).parent / "toy_project"])
