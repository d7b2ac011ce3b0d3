"""The README's code runs, and prints what the README says."""

import contextlib
import io
import re
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"
BLOCKS = re.findall(
    r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", README.read_text(), re.S
)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_code_runs_and_prints_what_is_shown(number: int) -> None:
    code, shown = BLOCKS[number]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {})
    if shown:
        assert printed.getvalue() == shown


def test_there_is_code_and_shown_output() -> None:
    assert len(BLOCKS) >= 1
    assert BLOCKS[0][1]


def test_the_two_commands_are_targets_of_the_makefile() -> None:
    makefile = (README.parent / "Makefile").read_text()
    commands = re.findall(r"^make ([\w-]+)", README.read_text(), re.M)
    assert commands == ["demo", "test"]
    assert all(re.search(rf"^{name}:", makefile, re.M) for name in commands)
