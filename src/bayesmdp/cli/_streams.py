"""Streams that forget what is written after their reader has gone, as ``head`` does."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO, cast


class _Patient:
    """A stream on which a closed pipe is no error: the work and its verdict count."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write, or forget it."""
        self._try(self._stream.write, text)
        return len(text)

    def flush(self) -> None:
        """Flush, or forget it."""
        self._try(self._stream.flush)

    def _try(self, act: Callable[..., object], *arguments: object) -> None:
        try:
            act(*arguments)
        except BrokenPipeError:
            forget(self._stream)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def forget(stream: TextIO) -> None:
    """Send to nowhere what is left, which Python would try to write at its end."""
    with suppress(OSError, ValueError):  # not a file, as in tests
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@contextmanager
def patient_streams() -> Iterator[None]:
    """Have both streams patient."""
    before = sys.stdout, sys.stderr
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:  # for closed ones
        patient = (_Patient(stream or nowhere) for stream in before)
        sys.stdout, sys.stderr = (cast("TextIO", x) for x in patient)
        try:
            yield
        finally:
            sys.stdout, sys.stderr = before
