"""Which devices are known, and what is said where there is no GPU."""

import sys
from collections.abc import Iterator
from inspect import signature
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import numpy as np
import pytest
from click.testing import CliRunner
from test_start_up import run

import bayesmdp as bm
from bayesmdp import engine
from bayesmdp.cli import main
from bayesmdp.engine import _backend, _gpu_device
from bayesmdp.errors import ArgumentError, BackendError

WORLD = bm.worlds.gridworld()
POSTERIOR = bm.fit(WORLD.sample(200, seed=0), WORLD.task, prior=bm.SymmetricPrior())
PAID = bm.Task(
    25,
    4,
    {"cost": np.ones(25), "qaly": np.ones(25)},
    discount={"cost": 0.9, "qaly": 0.9},
    terminal=WORLD.task.terminal,
)


@pytest.fixture(autouse=True)
def _nothing_found_yet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Look for a GPU in every test, also on a machine that has one."""
    made = dict(_backend._BACKENDS) | {"cuda": engine.make_gpu}
    monkeypatch.setattr(_backend, "_BACKENDS", made)
    monkeypatch.delenv("BAYESMDP_DEVICE", raising=False)
    found = (_gpu_device._cupy, _gpu_device.first_device)
    for one in found:
        one.cache_clear()
    yield
    for one in found:
        one.cache_clear()


def evaluate(device: str | None) -> bm.Evaluation:
    return bm.evaluate([0] * 25, POSTERIOR, n_draws=16, device=device)


# --- Names


def test_an_unknown_device_is_told_the_known_ones() -> None:
    with pytest.raises(ArgumentError) as caught:
        evaluate("cudda")
    assert str(caught.value) == (
        "`device` must be one of cpu, cuda, auto; got 'cudda' (did you mean 'cuda'?)."
    )


def test_the_environment_names_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    for said, expected in (("cpu", "cpu"), (" ", "cpu"), ("auto", "cpu")):
        monkeypatch.setenv("BAYESMDP_DEVICE", said)
        assert evaluate(None).device == expected
    monkeypatch.setenv("BAYESMDP_DEVICE", "gpu")
    with pytest.raises(ArgumentError, match="`BAYESMDP_DEVICE` must be one of cpu"):
        evaluate(None)
    assert evaluate("cpu").device == "cpu"
    monkeypatch.setenv("BAYESMDP_DEVICE", "cuda")
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(BackendError, match=r"^BAYESMDP_DEVICE is cuda: .* needs CuPy"):
        evaluate(None)


def test_a_device_is_made_when_it_is_asked_for() -> None:
    made = []

    def make() -> engine.Backend:
        made.append(1)
        return engine.CPU()

    _backend.register_later("later", make)
    assert made == []
    first = _backend.backend_of("later")
    assert _backend.backend_of("later") is first
    assert made == [1]


def test_nothing_of_a_gpu_is_imported_before_it_is_asked_for() -> None:
    script = """
        import sys, bayesmdp as bm
        casino = bm.worlds.casino()
        policy = bm.policies.nominal(casino)
        for device in (None, "cpu", "auto"):
            assert bm.evaluate(policy, casino, device=device).device == "cpu"
        print(*[x for x in ("cupy", "bayesmdp.engine._gpu") if x in sys.modules])
    """
    assert run(script, BAYESMDP_DEVICE="") == ""


# --- Without a GPU


class CUDARuntimeError(RuntimeError):
    """As CuPy has one."""


def fake(
    count: int | str = 1, driver: int = 13000, compiler: str | None = None
) -> SimpleNamespace:
    """CuPy as far as it is asked what there is; texts are errors."""

    def devices() -> int:
        if isinstance(count, str):
            raise CUDARuntimeError(count)
        return count

    def version() -> tuple[int, int]:
        if compiler is not None:
            raise RuntimeError(compiler)
        return 13, 0

    runtime = SimpleNamespace(
        CUDARuntimeError=CUDARuntimeError,
        getDeviceCount=devices,
        driverGetVersion=lambda: driver,
        runtimeGetVersion=lambda: 13020,
    )
    nvrtc = SimpleNamespace(getVersion=version)
    return SimpleNamespace(cuda=SimpleNamespace(runtime=runtime, nvrtc=nvrtc))


_OLD = (
    "cudaErrorInsufficientDriver: CUDA driver version is insufficient for CUDA runtime "
    "version"
)
_NONE = "cudaErrorNoDevice: no CUDA-capable device is detected"
MISSING: dict[str, tuple[Any, str]] = {
    "no CuPy": (None, "needs CuPy: pip install 'bayesmdp[cuda]'"),
    "an old driver": (
        fake(_OLD, driver=12040),
        "finds a driver for CUDA 12.4, and CuPy here is made for CUDA 13.2: update "
        "NVIDIA's driver, take CuPy for an older CUDA (cupy-cuda12x[ctk])",
    ),
    "no driver": (
        fake(_OLD, driver=0),
        "finds no GPU (there is no driver): see what `nvidia-smi` says of GPU and "
        "driver",
    ),
    "no GPU": (
        fake(_NONE),
        f"finds no GPU ({_NONE}): see what `nvidia-smi` says of GPU and driver",
    ),
    "none visible": (fake(0), "finds no GPU: look at CUDA_VISIBLE_DEVICES"),
    "no compiler": (
        fake(compiler="libnvrtc.so.13 was not found.\nNo such file"),
        "finds no CUDA compiler (libnvrtc.so.13 was not found): pip install "
        "'bayesmdp[cuda]'",
    ),
}


@pytest.mark.parametrize("case", MISSING)
def test_a_missing_gpu_is_one_sentence_with_a_remedy(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cupy, said = MISSING[case]
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    with pytest.raises(BackendError) as caught:
        evaluate("cuda")
    assert str(caught.value) == f"`device='cuda'` {said}, or take device='cpu'."
    assert evaluate("cpu").device == "cpu"
    monkeypatch.setattr("bayesmdp.engine._auto._LEAST_SECONDS", 0.0)
    assert evaluate("auto").device == "cpu"


def test_a_cupy_that_cannot_be_imported_says_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In the words of CuPy, whose message has a frame and several paragraphs."""
    said = "====\nFailed to import CuPy.\n\nOriginal error:\n  libcu.so: no such file\n"
    (tmp_path / "cupy.py").write_text(f"raise ImportError({said!r})")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(BackendError, match=r"cannot be imported \(libcu.so: no"):
        evaluate("cuda")


def test_every_call_that_takes_a_device_refuses_one_that_is_not_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    policy, log = [0] * 25, WORLD.simulate(np.full((25, 4), 0.25), 40, seed=0)
    belief = bm.fit(log, WORLD.task, prior=bm.SymmetricPrior())
    task, priors = WORLD.task, {"flat": bm.SymmetricPrior()}
    two = {"a": policy, "b": policy}
    paid = bm.fit(log, PAID, prior=bm.SymmetricPrior())
    how: Any = {"device": "cuda"}
    calls: dict[str, Any] = {
        "evaluate": lambda: bm.evaluate(policy, belief, **how),
        "compare": lambda: bm.compare(two, belief.draws(32), **how),
        "optimise": lambda: bm.optimise(belief, effort="quick", **how),
        "improve": lambda: bm.improve(belief, policy, effort="quick", **how),
        "risk_frontier": lambda: bm.risk_frontier(belief, effort="quick", **how),
        "value_of_information": lambda: bm.value_of_information(belief, **how),
        "next_trial": lambda: bm.next_trial(belief, 10, **how),
        "cost_effectiveness": lambda: bm.cost_effectiveness(two, paid, **how),
        "action_values": lambda: bm.action_values(policy, belief.draws(32), **how),
        "check": lambda: bm.check(belief, log, **how),
        "cross_fit": lambda: bm.cross_fit(log, task, priors["flat"], **how),
        "prior_sensitivity": lambda: bm.prior_sensitivity(
            policy, belief, task, priors, **how
        ),
    }
    public = {x: getattr(bm, x) for x in bm.__all__ if x.islower()}
    functions = {x: f for x, f in public.items() if callable(f)}
    assert set(calls) == {
        x for x, f in functions.items() if "device" in signature(f).parameters
    }
    for name, call in calls.items():
        with pytest.raises(BackendError) as caught:
            call()
        assert str(caught.value).startswith("`device='cuda'` needs CuPy"), name


# --- The command line


@pytest.fixture
def ward(tmp_path: Path) -> str:
    path = tmp_path / "ward"
    bm.storage.save(POSTERIOR, path)
    return str(path)


@pytest.fixture
def files(ward: str, tmp_path: Path) -> dict[str, str]:
    """A run, a log with episodes and a run of it, and a run with two rewards."""
    log = WORLD.simulate(np.full((25, 4), 0.25), 40, seed=0)
    rows = bm.model.logged_episodes(log, WORLD.task)
    names = ("episode", "step", "state", "action", "next_state")
    columns = [getattr(rows, name) for name in names]
    lines = [",".join(map(str, row)) for row in zip(*columns, strict=True)]
    path = tmp_path / "log.csv"
    path.write_text("\n".join([",".join(names), *lines]))
    for name, task in (("logged", WORLD.task), ("paid", PAID)):
        belief = bm.fit(log, task, prior=bm.SymmetricPrior())
        bm.storage.save(belief, tmp_path / name)
    here = {name: str(tmp_path / name) for name in ("logged", "paid")}
    return {"RUN": ward, "LOG": str(path)} | {k.upper(): v for k, v in here.items()}


COMMANDS = ("evaluate RUN mle", "compare RUN mle uniform", "optimise RUN")
COMMANDS += ("improve RUN", "information RUN", "prior-sensitivity RUN mle")
COMMANDS += ("report RUN -o page.html", "check LOGGED LOG", "cross-fit LOGGED LOG")
COMMANDS += ("off-policy LOGGED LOG --policy mle", "demo --patients 50 --draws 2")
COMMANDS += ("cost-effectiveness PAID always:0 always:1",)


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_end_with_2_and_the_sentence(
    command: str,
    files: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "cupy", None)
    words = [files.get(x, x) for x in command.split()]
    found = CliRunner().invoke(main, [*words, "--device", "cuda"])
    assert found.exit_code == 2
    said = found.stderr.splitlines()[-1]
    assert said == (
        "bayesmdp: `--device cuda` needs CuPy: pip install 'bayesmdp[cuda]', or take "
        "--device cpu."
    )


def test_the_command_line_knows_its_devices(ward: str) -> None:
    found = CliRunner().invoke(main, ["evaluate", ward, "mle", "--device", "gpu"])
    assert found.exit_code == 2
    assert "'gpu' is not one of 'cpu', 'cuda', 'auto'" in found.stderr
    done = ["evaluate", ward, "mle", "--device", "auto", "--draws", "32"]
    found = CliRunner().invoke(main, done)
    assert found.exit_code == 0, found.stderr


def test_every_command_that_computes_draws_has_the_option() -> None:
    """Where it would have no effect, it is not there."""
    context = click.Context(main)
    with_device = {
        name
        for name in main.list_commands(context)
        for option in (main.get_command(context, name) or main).params
        if "--device" in option.opts
    }
    assert with_device == {command.split()[0] for command in COMMANDS}


def test_info_says_which_devices_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    found = CliRunner().invoke(main, ["info"])
    assert found.exit_code == 0
    lines = found.stdout.splitlines()
    assert "device         cpu" in lines
    assert any(x.startswith("cuda           not available: ") for x in lines)
    found = CliRunner().invoke(main, ["info"], env={"BAYESMDP_DEVICE": "cuda"})
    assert found.exit_code == 0
    assert "device         cuda" in found.stdout
    gpu = SimpleNamespace(name="NVIDIA H200")
    monkeypatch.setattr(_gpu_device, "first_device", lambda: gpu)
    found = CliRunner().invoke(main, ["info"])
    assert "cuda           NVIDIA H200" in found.stdout
