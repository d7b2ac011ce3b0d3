"""Run many inputs, judge each, count, and name the first offenders."""

import os
import random
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from bayesmdp import BayesmdpWarning
from fuzz import (
    Case,
    DifferenceError,
    Target,
    commands,
    minari,
    policies,
    readers,
    runs,
)
from fuzz import tasks as task_files

TARGETS: Mapping[str, Target] = {
    "readers": readers.check,
    "tasks": task_files.check,
    "policies": policies.check,
    "runs": runs.check,
    "minari": minari.check,
    "commands": commands.check,
}
#: Of a hundred inputs, how many are for each; the slow ones get fewer.
SHARES = {"readers": 33, "tasks": 22, "policies": 16, "runs": 13, "minari": 10}
SHARES |= {"commands": 6}
BAD = ("foreign", "difference")
SECONDS = 60  # that one input may take
_CHUNK = 25


@dataclass(frozen=True)
class Verdict:
    """What became of one input."""

    target: str
    seed: int
    kind: str  # result, refused, foreign, difference
    said: str = ""
    notes: tuple[str, ...] = ()

    def text(self) -> str:
        """Say it in lines, with the command that does it again."""
        lines = [f"{self.kind} in {self.target}: python -m fuzz {self.target}"]
        lines[0] += f" {self.seed}"
        return "\n    ".join([*lines, *self.said.splitlines(), *self.notes])


def judged(target: str, seed: int, folder: Path | None = None) -> Verdict:
    """Make the input of a seed and judge what the package does with it."""
    with tempfile.TemporaryDirectory(prefix="bayesmdp-fuzz-") as away:
        case = Case(random.Random(f"{target} {seed}"), Path(folder or away))
        kind, said = _outcome(TARGETS[target], case)
    return Verdict(target, seed, kind, said, tuple(case.notes))


def _outcome(check: Target, case: Case) -> tuple[str, str]:
    with warnings.catch_warnings(), _time_limit():
        warnings.simplefilter("error")  # other people's warnings are foreign too
        warnings.simplefilter("ignore", BayesmdpWarning)
        try:
            return ("result" if check(case) else "refused"), ""
        except DifferenceError as found:
            return "difference", str(found)
        except Exception as problem:
            at = traceback.extract_tb(problem.__traceback__)[-3:]
            lines = [f"{x.filename}:{x.lineno} in {x.name}" for x in at]
            said = f"{type(problem).__name__}: {problem}"
            return "foreign", "\n".join([f"{said:.400}", *lines])


@contextmanager
def _time_limit() -> Iterator[None]:
    """Raise where an input takes too long, if the system has such a clock."""

    def stop(*_: Any) -> None:
        raise TimeoutError(f"took longer than {SECONDS} seconds")

    if not hasattr(signal, "setitimer"):
        yield
        return
    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def inputs(n_inputs: int, first: int = 0) -> list[tuple[str, int]]:
    """Share out inputs among targets, one after the other."""
    turns = [name for name, share in SHARES.items() for _ in range(share)]
    random.Random(0).shuffle(turns)
    seen: Counter[str] = Counter()
    found = []
    for i in range(n_inputs):
        name = turns[i % len(turns)]
        found.append((name, first + seen[name]))
        seen[name] += 1
    return found


def campaign(
    n_inputs: int, *, first: int = 0, jobs: int | None = None, minutes: float = 10.0
) -> list[Verdict]:
    """Judge inputs in several processes; stop where the time is over."""
    every = inputs(n_inputs, first)
    chunks = [every[i : i + _CHUNK] for i in range(0, len(every), _CHUNK)]
    began = time.monotonic()
    found: list[Verdict] = []
    workers = jobs or os.cpu_count() or 1
    context = get_context("spawn")
    with ProcessPoolExecutor(workers, context, initializer=_one_thread) as pool:
        waiting = {pool.submit(_judge_all, chunk): chunk for chunk in chunks}
        for future in as_completed(waiting):
            try:
                found += future.result()
            except BrokenProcessPool:
                found.append(_died(waiting[future]))
                break
            _show(len(found), n_inputs, found, time.monotonic() - began)
            if time.monotonic() - began > 60 * minutes:
                break
        pool.shutdown(cancel_futures=True)
    return sorted(found, key=lambda x: (x.target, x.seed))


def _one_thread() -> None:
    """Leave the cores to the processes."""
    os.environ["BAYESMDP_THREADS"] = "1"


def _judge_all(chunk: list[tuple[str, int]]) -> list[Verdict]:
    return [judged(target, seed) for target, seed in chunk]


def _died(chunk: list[tuple[str, int]]) -> Verdict:
    """Say which inputs were in hand when a process was lost."""
    said = ", ".join(f"{target} {seed}" for target, seed in chunk)
    return Verdict(*chunk[0], "foreign", f"a process died at one of {said}")


def _show(done: int, of: int, found: list[Verdict], seconds: float) -> None:
    bad = sum(x.kind in BAD for x in found)
    sys.stderr.write(f"\r{done} of {of} inputs, {bad} bad, {seconds:.0f} s ")
    sys.stderr.flush()


def table(found: list[Verdict]) -> str:
    """Count outcomes by target."""
    kinds = ("result", "refused", *BAD)
    counted = Counter((x.target, x.kind) for x in found)
    lines = [f"{'':<10}" + "".join(f"{kind:>12}" for kind in kinds)]
    for name in [*TARGETS, "all"]:
        of = TARGETS if name == "all" else [name]
        sums = [sum(counted[target, kind] for target in of) for kind in kinds]
        lines.append(f"{name:<10}" + "".join(f"{n:>12}" for n in sums))
    return "\n".join(lines)
