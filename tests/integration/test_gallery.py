"""Scripts of the gallery run as plain scripts, without a word of warning.

Those that take more than some seconds are run by `make docs` alone.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

EXAMPLES = Path(__file__).parents[2] / "examples"
#: What each must say, found another way: a published or an exact answer.
QUICK = {
    "bus_engines": "replace from bin 71 on",  # value iteration, docs of the example
    "casino": "probability 0.6907: 1.3377",
    "frozen_lake": "exact optimum 0.5420",
    "gridworld_uncertainty": "wind  0.5",
    "hiv_therapy": "two drugs cost 6275.96 for each year",  # Briggs et al. (2006)
    "mcmc_ensemble": "r_hat",
    "next_trial": "home, as logged: 0.669",  # exact, of the model in the script
    "null_trial": "p value 0.37",
    "rain_markov": "log Bayes factor 14.21 for order 1",
    "sick_sicker": "net benefit 2,065,293: +105,947",  # Alarid-Escudero et al. (2023)
    "riverswim_frontier": "Best policies for the worst draws",
}


@pytest.mark.parametrize("name", QUICK)
def test_a_script_runs_by_itself(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py")],
        cwd=tmp_path,
        env=os.environ | {"MPLBACKEND": "Agg"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert QUICK[name] in done.stdout
    assert list(tmp_path.iterdir()) == []
