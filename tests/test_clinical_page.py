"""The page on clinical tables runs from top to bottom, and prints what it shows."""

import contextlib
import io
import re
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "clinical.md"
BLOCKS = re.findall(
    r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", PAGE.read_text(), re.S
)


def test_code_runs_and_prints_what_is_shown() -> None:
    names: dict[str, object] = {}
    for code, shown in BLOCKS:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "clinical.md", "exec"), names)
        if shown:
            assert printed.getvalue() == shown


def test_there_is_code_and_shown_output() -> None:
    assert len(BLOCKS) == 8
    assert sum(bool(shown) for _, shown in BLOCKS) == 6
