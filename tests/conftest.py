"""What several test files share."""

import pytest


@pytest.fixture(scope="module")
def one_thread():
    """One thread of torch: two on busy cores wait for each other ten times as long as they work."""
    import torch  # here, as most tests need none of it

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
