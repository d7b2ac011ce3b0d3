"""The built package, installed away from the sources, works as a user gets it."""

import json
import os
import re
import subprocess
import sys
import tarfile
import venv
from collections.abc import Callable
from pathlib import Path
from zipfile import ZipFile

import pytest

import bayesmdp as bm

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
LOG = """id,t,s,a,sp
1,0,ward,wait,icu
1,1,icu,treat,home
2,0,ward,treat,icu
2,1,icu,wait,death
3,0,ward,treat,home
"""
TASK = 'discount = 0.9\nterminal = ["home", "death"]\nreward.state.home = 1\n'
#: A user's module that mypy must accept, and one that it must not.
TYPED = """
import numpy as np
import bayesmdp as bm

def value(path: str) -> float:
    log = bm.read_transitions(path)
    task = bm.Task(4, 2, [0.0, 1.0, 0.0, 0.0], discount=0.9, terminal=["home", "death"])
    posterior = bm.fit(log, task)
    table = bm.compare(
        {"a": np.zeros(4, dtype=int), "b": bm.policies.nominal(posterior)}, posterior
    )
    best = bm.optimise(posterior, bm.CVaR(0.1), seed=0)
    row: bm.evaluation.ComparisonRow = table.rows[0]
    return row.value + best.evaluation.start_value
"""
WRONG = """
import bayesmdp as bm

x: str = bm.evaluate([0], bm.worlds.casino()).start_value
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution, and the wheel that is made of it.

    ``make release`` has built both, and names the folder.
    """
    if given := os.environ.get("BAYESMDP_DIST"):
        return Path(given).resolve()
    made = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--outdir", str(made), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    return made


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of programs of an environment that has the wheel and what it needs."""
    home = tmp_path_factory.mktemp("venv")
    venv.create(home)
    binaries = home / ("Scripts" if os.name == "nt" else "bin")
    (wheel,) = built.glob("*.whl")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    install = ["--python", str(binaries / "python"), "install", "--no-compile"]
    subprocess.run([*pip, *install, str(wheel)], check=True)
    return binaries


@pytest.fixture
def run(installed: Path, tmp_path: Path) -> Callable[..., str]:
    def ran(program: str, *arguments: str) -> str:
        left_out = {"PYTHONPATH", "NUMBA_CACHE_DIR"}
        done = subprocess.run(
            [str(installed / program), *arguments],
            env={k: x for k, x in os.environ.items() if k not in left_out},
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        assert done.returncode in (0, 1), done.stderr
        return done.stdout

    return ran


def test_twine_has_nothing_to_object(built: Path) -> None:
    check = [sys.executable, "-m", "twine", "check", "--strict"]
    done = subprocess.run(
        [*check, *map(str, built.iterdir())], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("PASSED") == 2


def test_what_is_shipped(built: Path) -> None:
    (wheel,) = built.glob("bayesmdp-*.whl")
    with ZipFile(wheel) as packed:  # no studies, no benchmarks
        names = packed.namelist()
    tops = {name.split("/")[0] for name in names}
    assert sorted(tops) == ["bayesmdp", f"bayesmdp-{bm.__version__}.dist-info"]
    assert "bayesmdp/py.typed" in names
    kernels = {x.name for x in (ROOT / "src/bayesmdp/engine/cuda").iterdir()}
    assert {f"bayesmdp/engine/cuda/{x}" for x in kernels} <= {*names}
    (source,) = built.glob("bayesmdp-*.tar.gz")
    with tarfile.open(source) as packed_source:
        inside = {x.split("/", 1)[-1] for x in packed_source.getnames()}
    assert {"examples/casino.py", "docs/conf.py", "CITATION.cff"} <= inside
    assert not any(x.startswith(("docs/_build", "docs/gallery")) for x in inside)
    cited = (ROOT / "CITATION.cff").read_text()
    assert f"version: {bm.__version__}\n" in cited


def test_the_first_example_of_the_site_runs(run: Callable[..., str]) -> None:
    page = (ROOT / "docs" / "index.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.S)
    assert "from the start  0.8997 ± 0.0003" in run("python", "-c", code)


def test_a_strict_user_can_check_types(installed: Path, tmp_path: Path) -> None:
    mypy = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path)]
    mypy += ["--python-executable", str(installed / "python"), "-c"]
    left_out = {"PYTHONPATH", "MYPYPATH"}
    env = {k: x for k, x in os.environ.items() if k not in left_out}
    for code, found in ((TYPED, 0), (WRONG, 1)):
        done = subprocess.run(
            [*mypy, code], cwd=tmp_path, env=env, capture_output=True, text=True
        )
        assert done.returncode == found, done.stdout


def test_without_extras_an_analysis_runs(
    run: Callable[..., str], tmp_path: Path
) -> None:
    (tmp_path / "ward.csv").write_text(LOG)
    (tmp_path / "task.toml").write_text(TASK)
    assert "A whole analysis" in run("bayesmdp", "--help")
    versions = json.loads(run("bayesmdp", "info", "--json"))
    assert versions["matplotlib"] is None  # no extra is there
    run("bayesmdp", "fit", "ward.csv", "--task", "task.toml", "-o", "ward")
    quick = ("--steps", "1", "--start", "nominal", "--json")
    found = json.loads(run("bayesmdp", "optimise", "ward", *quick))
    assert 0 < found["start_value"] <= 1
    run("bayesmdp", "report", "ward", "-o", "ward.html", "--draws", "64")
    assert "plotly" in (tmp_path / "ward.html").read_text(encoding="utf-8")
