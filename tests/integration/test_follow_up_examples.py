"""The examples on real follow-up data, which R writes: survival as Kaplan-Meier has it.

Nothing of the data is kept here: packages survival and msm of R hold them.
"""

import importlib.util
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from debian import install

import bayesmdp as bm

pytestmark = [
    pytest.mark.integration,
    pytest.mark.filterwarnings("ignore::bayesmdp.BayesmdpWarning"),
]
EXAMPLES = Path(__file__).parents[2] / "examples"
#: Rows on the grid, and five-year survival by R's survfit on the raw times, of death or
#: transplantation and of death.
KNOWN = {"pbcseq": (2082, 0.669), "cav": (3781, 0.799)}


def loaded(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where R wrote both tables."""
    if shutil.which("Rscript") is None:
        install("R", "r-base-core", "r-cran-survival", "r-cran-msm")
    made = tmp_path_factory.mktemp("visits")
    for name in KNOWN:
        code = ["Rscript", "-e", loaded(name).CODE]
        done = subprocess.run(code, cwd=made, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"R cannot write {name}: {done.stderr.strip()[-200:]}")
    return made


@pytest.mark.parametrize("name", KNOWN)
def test_five_year_survival_lies_in_the_kaplan_meier_interval(
    name: str, folder: Path
) -> None:
    example = loaded(name)
    log = example.read(folder / f"{name}.csv")
    posterior = example.believe(log)
    n_rows, known = KNOWN[name]
    assert log.n_rows == n_rows
    task = posterior.task
    observed = bm.diagnostics.kaplan_meier(log, task)
    assert observed.survival[5] == pytest.approx(known, abs=0.002)
    shares = bm.diagnostics.state_shares(
        bm.policies.behaviour(posterior), posterior.draws(500, seed=0), 5
    )
    predicted = float(np.mean(shares[:, 5][:, ~task.is_terminal].sum(axis=1)))
    assert observed.low[5] < predicted < observed.high[5]


@pytest.mark.parametrize("name", KNOWN)
def test_the_example_runs(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    loaded(name).main(f"{name}.csv")
    assert (folder / f"{name}.png").stat().st_size > 10_000
    assert (folder / f"{name}.html").exists() == (name == "pbcseq")
