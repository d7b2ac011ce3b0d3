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
    assert QUICK[name] in run(name, tmp_path)


def test_chemotherapy_has_the_figures_of_voi(tmp_path: Path) -> None:
    """EVPI and CEAC that voi's own functions give for its stored draws, all digits."""
    folder = os.environ.get("BAYESMDP_VOI")
    if folder is None:
        pytest.skip("BAYESMDP_VOI names no folder with voi's chemo_cea and chemo_pars")
    pytest.importorskip("rdata", reason="R's files are read by rdata: not installed")
    shown = run("chemotherapy", tmp_path, str(Path(folder).resolve()))
    table = shown[shown.index("Novel is best") :].splitlines()[1:6]
    assert [row.split()[1:] for row in table] == [
        ["8.7649", "0.0364"],
        ["368.6051", "0.4923"],
        ["206.4687", "0.7463"],
        ["150.4729", "0.8430"],
        ["126.9835", "0.8891"],
    ]


def run(name: str, folder: Path, *arguments: str) -> str:
    """Return what a script prints, which warns of nothing and leaves nothing."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py"), *arguments],
        cwd=folder,
        env=os.environ | {"MPLBACKEND": "Agg"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert list(folder.iterdir()) == []
    return done.stdout
