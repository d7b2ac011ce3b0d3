"""Code of the pages that take longer than others."""

import pytest
from test_pages import run_page

pytestmark = pytest.mark.integration


def test_code_of_priors_runs_and_prints_what_is_shown() -> None:
    run_page("priors.md", 6, 5)


@pytest.mark.filterwarnings("ignore::bayesmdp.BayesmdpWarning")
def test_code_of_is_it_real_runs_and_prints_what_is_shown() -> None:
    run_page("is_it_real.md", 6, 6)
