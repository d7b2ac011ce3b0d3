"""A whole analysis as a user runs it: real processes, files, pipes and signals."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import bayesmdp as bm

pytestmark = pytest.mark.integration

COMMAND = [sys.executable, "-m", "bayesmdp"]
NEXT = {  # by state and action: ward, icu, home, death
    ("ward", "wait"): (5, 3, 2, 0),
    ("ward", "treat"): (4, 2, 4, 0),
    ("icu", "wait"): (2, 5, 0, 3),
    ("icu", "treat"): (5, 4, 0, 1),
}
TASK = 'discount = 0.9\nterminal = ["home", "death"]\nreward.state.home = 1\n'
STATES = ("ward", "icu", "home", "death")


def write_log(path: Path) -> None:
    rng = random.Random(0)
    rows = ["patient,step,state,action,next_state"]
    for patient in range(150):
        state = rng.choice(STATES[:2])
        for step in range(20):
            if state in ("home", "death"):
                break
            action = rng.choice(["wait", "treat"])
            (new,) = rng.choices(STATES, NEXT[state, action])
            rows.append(f"{patient},{step},{state},{action},{new}")
            state = new
    path.write_text("\n".join(rows) + "\n")


def run(*arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_from_a_table_to_a_page() -> None:
    write_log(Path("ward.csv"))
    assert "ward.csv" in run("validate", "ward.csv").stdout
    run("fit", "ward.csv", "--init", "task.toml")
    template = Path("task.toml").read_text()
    assert "home = 0.0" in template
    Path("task.toml").write_text(template.replace("home = 0.0", "home = 1.0"))
    prior = ("--prior", "sparse", "--fallback", "death", "--min-count", "5")
    run("fit", "ward.csv", "--task", "task.toml", *prior, "-o", "ward/")
    best = run("optimise", "ward/", "--policy-out", "best.csv", "--json")
    assert best.stderr == ""  # nobody looks at a bar in a pipe
    found = json.loads(best.stdout)
    assert found["start_value"] <= found["upper_bound"] + 1e-3
    rows = Path("best.csv").read_text().splitlines()
    assert rows == ["state,action,probability", "icu,treat,1.0", "ward,treat,1.0"]
    names = ("mle", "nominal", "optimised", "behaviour")
    table = run("compare", "ward/", *names, "--reference", "behaviour", "--json")
    values = {row["name"]: row for row in json.loads(table.stdout)["rows"]}
    assert values["optimised"]["difference"] > 0.01
    assert values["optimised"]["probability_better"] > 0.9
    one = json.loads(run("evaluate", "ward/", "best.csv", "--json").stdout)
    assert one["start_value"] == pytest.approx(values["optimised"]["value"], abs=1e-4)
    assert run("report", "ward/", "-o", "ward.html").stderr == ""
    page = Path("ward.html").read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>")
    data = json.loads(Path("ward.json").read_text())
    assert data["summary"]["recommended"] == "optimised"
    assert data["summary"]["reference"] == "behaviour"
    told = run("info", "ward/").stdout
    assert "optimised: Optimisation(PosteriorMean(): 0." in told
    assert "comparison: Comparison(" in told


def large_run() -> bm.Posterior:
    """Work for some seconds."""
    world = bm.worlds.synthetic(0, n_states=30, n_actions=5)
    posterior = bm.fit(world.sample(600, seed=0), world.task, prior=bm.SymmetricPrior())
    bm.storage.save(posterior, "run")
    return posterior


def interrupted(*arguments: str) -> tuple[int, str]:
    """Press Ctrl-C once the bar is seen; the exit code, and what was on the screen."""
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=theirs, text=True
    )
    os.close(theirs)
    guard = threading.Timer(240, process.kill)
    guard.start()
    screen, pressed = "", False
    try:
        while True:
            try:
                screen += os.read(ours, 4096).decode(errors="replace")
            except OSError:  # the process has closed its end
                break
            if "optimising" in screen and not pressed:
                pressed = True
                process.send_signal(signal.SIGINT)
        process.communicate(timeout=240)
    finally:
        guard.cancel()
        process.kill()
        os.close(ours)
    return process.returncode, screen


def test_ctrl_c_keeps_the_best_so_far_and_resume_goes_on() -> None:
    posterior = large_run()
    thorough = "--effort", "thorough"
    code, screen = interrupted("optimise", "run", *thorough, "--threads", "2")
    assert code == 130, screen
    assert "interrupted; the best so far is kept, and `--resume` continues." in screen
    assert "Traceback" not in screen
    kept = bm.storage.load_result("run", "optimised")
    assert kept.interrupted
    assert kept.status.startswith("interrupted")
    bm.model.as_policy(kept.policy, posterior)
    done = subprocess.run(
        [*COMMAND, "optimise", "run", "--resume", "--steps", "3", "--json"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode in (0, 1), done.stderr
    assert json.loads(done.stdout)["interrupted"] is False
    resumed = bm.storage.load_result("run", "optimised")
    assert resumed.draws_used > kept.draws_used
    assert resumed.start_value > kept.start_value - 5 * kept.start_value_mcse


needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")


@needs_bash
def test_a_pipe_that_closes_early_spoils_nothing() -> None:
    write_log(Path("ward.csv"))
    Path("task.toml").write_text(TASK)
    run("fit", "ward.csv", "--task", "task.toml", "-o", "ward")
    command = " ".join([*COMMAND, "compare", "ward", "mle", "nominal", "--json"])
    done = subprocess.run(
        ["bash", "-c", f"{command} | head -n 1; echo ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.stdout == "{\n0\n"
    assert done.stderr == ""
    assert bm.storage.load_result("ward", "comparison").reference == "mle"


@needs_bash
def test_nothing_is_half_written_where_nothing_can_be_written() -> None:
    write_log(Path("ward.csv"))
    Path("task.toml").write_text(TASK)
    run("fit", "ward.csv", "--task", "task.toml", "-o", "ward")
    Path("wall").write_text("a file, and no directory")
    below = "wall/page.html"
    done = run("fit", "ward.csv", "--task", "task.toml", "-o", "wall/ward", code=2)
    assert "`wall/ward` cannot be written" in done.stderr
    done = run("report", "ward", "-o", below, "--draws", "64", "--quiet", code=2)
    assert f"`{below}` cannot be written" in done.stderr
    quick = ("--steps", "1", "--start", "nominal")
    done = run("optimise", "ward", *quick, "--policy-out", "wall/p.csv", code=2)
    assert "`wall/p.csv` cannot be written" in done.stderr
    compare = ("compare", "ward", "mle", "nominal")
    run(*compare)
    kept = Path("ward/results/comparison.json")
    before = kept.read_bytes()
    limited = f"ulimit -f 20; {' '.join([*COMMAND, *compare])} --seed 1"  # 20 kB a file
    done = subprocess.run(["bash", "-c", limited], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert "results/comparison.json` cannot be written: File too large" in done.stderr
    assert done.stderr.count("\n") == 1
    assert kept.read_bytes() == before
    assert bm.storage.load_result("ward", "comparison").evaluations["mle"].seed == 0
    names = {path.name for path in Path().rglob("*")}
    assert not {name for name in names if name.startswith(".")}
    if Path("/dev/full").exists():
        with Path("/dev/full").open("w") as full:
            command = [*COMMAND, "evaluate", "ward", "mle", "--draws", "64"]
            full_disk = subprocess.run(command, stdout=full, stderr=subprocess.PIPE)
        assert full_disk.returncode == 2
        assert full_disk.stderr == b"bayesmdp: cannot go on: No space left on device.\n"
