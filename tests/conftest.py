"""Settings every test shares."""

import pytest
from hypothesis import HealthCheck, settings

# The same examples in every run: a failure can be reproduced, and the error rates
# that statistical tests state are those of one fixed set of draws.
settings.register_profile(
    "fixed",
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("fixed")

#: Files whose tests compile the iterative solver: one process of several takes them
#: all, so that it is compiled once.
ITERATIVE = {"test_executor", "test_gymnasium", "test_krylov", "test_scale_corners"}
ITERATIVE |= {"test_chain", "test_memory", "test_sepsis", "test_solver"}


def pytest_configure(config: pytest.Config) -> None:
    """Know the mark also where pytest-xdist is switched off."""
    config.addinivalue_line("markers", "xdist_group: tests for one process")


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist looks for groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of a file in one process, where there are several."""
    for item in items:
        group = "iterative" if item.path.stem in ITERATIVE else item.path.stem
        item.add_marker(pytest.mark.xdist_group(group))
