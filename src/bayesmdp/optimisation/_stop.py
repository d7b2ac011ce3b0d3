"""When to stop: Ctrl-C or a limit of time, asked between steps, in one place."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Stop:
    """Whether a search should end with what it has."""

    def __init__(self, max_seconds: float | None) -> None:
        self._deadline = None
        if max_seconds is not None:
            self._deadline = time.perf_counter() + max_seconds
        self.interrupted = False

    @property
    def late(self) -> bool:
        """Whether the time is over."""
        return self._deadline is not None and time.perf_counter() > self._deadline

    def __bool__(self) -> bool:
        return self.interrupted or self.late


@contextmanager
def stop_on_interrupt(max_seconds: float | None = None) -> Iterator[Stop]:
    """Turn the first Ctrl-C into a wish to stop; a second one raises.

    Where another handler listens, or outside the main thread, Ctrl-C is left alone.
    """
    stop = Stop(max_seconds)
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield stop
        return

    def wish(number: int, frame: FrameType | None) -> None:
        stop.interrupted = True
        signal.signal(signal.SIGINT, signal.default_int_handler)

    signal.signal(signal.SIGINT, wish)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
