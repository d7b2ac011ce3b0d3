"""The built package, installed away from the sources, works as a user gets it."""

import json
import os
import subprocess
import sys
import venv
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


def test_a_built_wheel_without_extras_runs_an_analysis(tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    wheels, home = tmp_path / "wheels", tmp_path / "venv"
    subprocess.run(
        [*pip, "wheel", str(ROOT), "--no-deps", "-w", str(wheels)], check=True
    )
    (wheel,) = wheels.glob("bayesmdp-*.whl")
    with ZipFile(wheel) as packed:  # no studies, no benchmarks
        tops = {name.split("/")[0] for name in packed.namelist()}
    assert sorted(tops) == ["bayesmdp", f"bayesmdp-{bm.__version__}.dist-info"]
    venv.create(home)
    binaries = home / ("Scripts" if os.name == "nt" else "bin")
    install = ["--python", str(binaries / "python"), "install", "--no-compile"]
    subprocess.run([*pip, *install, str(wheel)], check=True)
    (tmp_path / "ward.csv").write_text(LOG)
    (tmp_path / "task.toml").write_text(TASK)

    def run(*arguments: str) -> str:
        left_out = {"PYTHONPATH", "NUMBA_CACHE_DIR"}
        done = subprocess.run(
            [str(binaries / "bayesmdp"), *arguments],
            env={k: x for k, x in os.environ.items() if k not in left_out},
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        assert done.returncode in (0, 1), done.stderr
        return done.stdout

    assert "A whole analysis" in run("--help")
    versions = json.loads(run("info", "--json"))
    assert versions["matplotlib"] is None  # no extra is there
    run("fit", "ward.csv", "--task", "task.toml", "-o", "ward")
    quick = ("--steps", "1", "--start", "nominal", "--json")
    found = json.loads(run("optimise", "ward", *quick))
    assert 0 < found["start_value"] <= 1
    run("report", "ward", "-o", "ward.html", "--draws", "64")
    assert "plotly" in (tmp_path / "ward.html").read_text(encoding="utf-8")
    (site,) = home.glob("**/site-packages")
    assert (site / "bayesmdp" / "py.typed").exists()
