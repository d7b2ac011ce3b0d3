"""The built package, installed away from the sources, works as a user gets it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.integration
def test_a_built_wheel_holds_everything_the_command_needs(tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    wheels, target = tmp_path / "wheels", tmp_path / "site"
    subprocess.run(
        [*pip, "wheel", str(ROOT), "--no-deps", "-w", str(wheels)], check=True
    )
    (wheel,) = wheels.glob("bayesmdp-*.whl")
    subprocess.run(
        [*pip, "install", str(wheel), "--no-deps", "--target", str(target)], check=True
    )
    environment = os.environ | {
        "PYTHONPATH": str(target),
        "NUMBA_CACHE_DIR": str(tmp_path / "cache"),
    }
    where = "import bayesmdp; print(bayesmdp.__file__)"
    for arguments in (["-c", where], ["-m", "bayesmdp", "demo", "--json"]):
        result = subprocess.run(
            [sys.executable, *arguments],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        assert result.returncode == 0, result.stderr
        if arguments[0] == "-c":
            assert result.stdout.startswith(str(target))
    assert json.loads(result.stdout)["10000"]["start_epistemic_sd"] > 0
    assert (target / "bayesmdp" / "py.typed").exists()
