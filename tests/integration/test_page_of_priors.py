"""The code of docs/priors.md, which takes longer than that of other pages."""

import pytest
from test_pages import run_page

pytestmark = pytest.mark.integration


def test_code_runs_and_prints_what_is_shown() -> None:
    run_page("priors.md", 5, 4)
