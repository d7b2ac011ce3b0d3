"""A progress bar where a person waits for it: on a terminal, after a second."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

Show = Callable[..., None]  # (done), (done, note)

_PATIENCE = 1.0  # seconds before the bar shows


class _Bar:
    """Starts a rich bar on stderr once the work has taken a while."""

    def __init__(self, what: str, total: int, patience: float) -> None:
        self._what, self._total, self._patience = what, total, patience
        self._began = time.monotonic()
        self._progress: Progress | None = None
        self._task: TaskID | None = None

    def show(self, done: int, note: str = "") -> None:
        """Move to ``done``, with a word on how it goes."""
        if self._progress is None:
            if time.monotonic() - self._began < self._patience:
                return
            from rich.console import Console
            from rich.progress import Progress

            self._progress = Progress(console=Console(stderr=True), transient=True)
            self._progress.start()
            self._task = self._progress.add_task(self._what, total=self._total)
        if self._task is not None:
            said = f"{self._what} {note}"
            self._progress.update(self._task, completed=done, description=said)

    def close(self) -> None:
        """Take the bar away."""
        if self._progress is not None:
            self._progress.stop()


@contextmanager
def progress_bar(
    what: str, total: int, wanted: bool | None = None, patience: float | None = None
) -> Iterator[Show]:
    """Yield a function to call with the amount done; it does nothing if nobody looks.

    ``wanted`` None means: on a terminal. Work that takes less than ``patience`` seconds
    shows nothing; None means one.
    """
    with told(wanted):
        if not (sys.stderr.isatty() if wanted is None else wanted):
            yield lambda *_: None
            return
        bar = _Bar(what, total, _PATIENCE if patience is None else patience)
        try:
            yield bar.show
        finally:
            bar.close()


_wanted: list[bool | None] = [None]  # the innermost is last


@contextmanager
def told(wanted: bool | None) -> Iterator[None]:
    """Keep in mind whether news are wanted; None leaves it as it is."""
    _wanted.append(_wanted[-1] if wanted is None else wanted)
    try:
        yield
    finally:
        _wanted.pop()


def announce(sentence: str) -> None:
    """Say what takes time, where bars would be shown, and in notebooks."""
    wanted = _wanted[-1]
    if sys.stderr is None:
        return
    if wanted is None:
        wanted = sys.stderr.isatty() or "ipykernel" in sys.modules
    if wanted:
        sys.stderr.write(f"bayesmdp: {sentence}\n")
        sys.stderr.flush()
