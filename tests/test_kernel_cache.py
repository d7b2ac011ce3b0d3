"""What people are told while kernels compile, and where their cache does not serve.

`tests/integration/test_kernel_cache.py` damages the cache itself.
"""

import sys
import warnings
from types import ModuleType

import pytest
from click.testing import CliRunner

from bayesmdp._resources import announce, told
from bayesmdp.cli import main
from bayesmdp.cli.commands import info
from bayesmdp.errors import CacheWarning


def test_it_is_said_in_notebooks_and_not_where_people_want_no_progress(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def said() -> str:
        announce("something")
        return capsys.readouterr().err

    assert said() == ""  # a pipe
    with told(True):
        assert said() == "bayesmdp: something\n"
    monkeypatch.setitem(sys.modules, "ipykernel", ModuleType("ipykernel"))
    assert said() == "bayesmdp: something\n"
    with told(None):
        assert said() == "bayesmdp: something\n"
    with told(False):
        assert said() == ""
    assert said() == "bayesmdp: something\n"


@pytest.mark.parametrize(("option", "seen"), [((), True), (("--quiet",), False)])
def test_quiet_commands_do_not_say_it(
    monkeypatch: pytest.MonkeyPatch, option: tuple[str, ...], seen: bool
) -> None:
    monkeypatch.setitem(sys.modules, "ipykernel", ModuleType("ipykernel"))
    monkeypatch.setattr(info, "version", lambda name: announce("something") or "1")
    result = CliRunner().invoke(main, ["info", *option])
    assert result.exit_code == 0, result.stderr
    assert ("something" in result.stderr) is seen


def test_a_warning_about_the_cache_leaves_the_exit_code_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def slow(name: str) -> str:
        warnings.warn("disk full", CacheWarning, stacklevel=1)
        return "1"

    monkeypatch.setattr(info, "version", slow)
    result = CliRunner().invoke(main, ["info"])
    assert result.exit_code == 0
    assert result.stderr == "bayesmdp: warning: disk full\n"
