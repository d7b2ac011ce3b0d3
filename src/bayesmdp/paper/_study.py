"""A study: jobs that are pure functions, records of each, and what they come to.

A job's records depend on its parameters alone, not on the clock, the number of
processes or what ran before. They are written to a file of their own as soon as the
job is done, whole or not at all. So a kill loses at most the jobs in hand, and a run
that was resumed ends with the same bytes as one that was not. Times, which no two runs
share, are kept apart. Where they are the subject of a study it is `timed`: its records
hold measured times in fields whose names begin with ``seconds``, and equal those of
another run in all others.

    out/NAME/study.json         what was asked for
    out/NAME/jobs/KEY.jsonl     records of one job, and KEY.seconds
    out/NAME/records.jsonl      all of them, in the order of jobs
    out/NAME/summary.md         tables and verdict
    out/NAME/*.png, *.svg       pictures, where matplotlib is installed

Studies that tell different things of the same jobs name one `Job.place` for them: each
then does only what no other has done. A place has a note of its own, so that jobs of
other options are never mixed.

    out/PLACE/study.json, out/PLACE/jobs/...
"""

import json
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import (
    BrokenExecutor,
    Future,
    ProcessPoolExecutor,
    as_completed,
)
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import Any

from bayesmdp._io import HIDDEN, write_atomic
from bayesmdp._progress import progress_bar
from bayesmdp._version import __version__
from bayesmdp.errors import ArgumentError, BayesmdpError, ExecutorError

Record = dict[str, Any]
_SCHEMA = 1
_NOTE = "study.json"
_NO_DATE = {"Date": None}
_VERDICT = "**Verdict:**"
_QUICKLY = "*Run with --quick: small sizes, wide errors; its verdict means little.*\n\n"


@dataclass(frozen=True)
class Effort:
    """How much to do; what a study does with it is its business."""

    quick: bool = False
    full: bool = False
    seeds: int | None = None  # repetitions, where the study has any

    @property
    def options(self) -> str:
        """What to give on the command line for it."""
        said = ["--quick"] * self.quick + ["--full"] * self.full
        return " ".join(said + [f"--seeds {self.seeds}"] * (self.seeds is not None))

    def __post_init__(self) -> None:
        if self.quick and self.full:
            raise ArgumentError("`--quick` and `--full` contradict: give one of them.")


@dataclass(frozen=True)
class Job:
    """A piece of work whose records are a function of its parameters."""

    key: str  # name of its file
    params: Mapping[str, Any] = field(default_factory=dict)  # plain JSON
    place: str | None = None  # where it lies, if studies share it


@dataclass(frozen=True)
class Study:
    """One table or figure: what to run, and what to make of it."""

    name: str
    title: str
    jobs: Callable[[Effort], Sequence[Job]]
    work: Callable[..., list[Record]]  # called with a job's parameters
    tell: Callable[[list[Record]], str]  # Markdown: tables, then a verdict
    plot: Callable[[list[Record]], Mapping[str, Any]] | None = None  # name -> figure
    timed: bool = False  # fields that begin with "seconds" differ from run to run


def without_times(record: Record) -> Record:
    """Return what a record of a timed study shares with that of another run."""
    return {k: x for k, x in record.items() if not k.startswith("seconds")}


@dataclass(frozen=True)
class Outcome:
    """Where a study's results lie, and what they say."""

    directory: Path
    summary: str
    seconds: float  # spent on its jobs in all runs together, also by other studies
    skipped: tuple[str, ...]  # what could not be made, and why
    places: tuple[str, ...] = ()  # of jobs that it shares with other studies

    @property
    def verdicts(self) -> list[str]:
        """Sentences of its verdict; none where a study gives none."""
        found = [x for x in self.summary.splitlines() if x.startswith(_VERDICT)]
        return [x.removeprefix(_VERDICT).strip() for x in found]


def run_study(
    study: Study,
    effort: Effort,
    out: Path,
    *,
    n_jobs: int = 1,
    resume: bool = False,
    progress: bool | None = None,
    pool: ProcessPoolExecutor | None = None,
) -> Outcome:
    """Do what is missing of a study, then tell what all of it says.

    A ``pool`` of `workers` is used in place of ``n_jobs`` processes of its own.
    """
    jobs = list(study.jobs(effort))
    directory = open_places(study, effort, out, resume)
    files = [_file(out, study, job) for job in jobs]
    with _worded(directory):
        missing = [
            job for job, file in zip(jobs, files, strict=True) if not file.is_file()
        ]
        before = len(jobs) - len(missing)
        with (
            _at(pool, n_jobs if len(missing) > 1 else 1) as at,
            # At once: the first job may take minutes.
            progress_bar(study.name, len(jobs), progress, patience=0) as show,
        ):
            if show is not None:
                show(before, f"{before}/{len(jobs)}")
            for done, (job, records, seconds) in enumerate(
                _worked(study, missing, at), before + 1
            ):
                _keep(_file(out, study, job), records, seconds)
                if show is not None:
                    show(done, f"{done}/{len(jobs)}")
        texts = [file.read_text(encoding="utf-8") for file in files]
        write_atomic(directory / "records.jsonl", "".join(texts))
        records = [json.loads(line) for text in texts for line in text.splitlines()]
        summary = (_QUICKLY if effort.quick else "") + study.tell(records)
        write_atomic(directory / "summary.md", f"# {study.title}\n\n{summary}\n")
        skipped = _draw(study, records, directory)
        seconds = sum(float(x.with_suffix(".seconds").read_text()) for x in files)
    return Outcome(directory, summary, seconds, skipped, _places(jobs))


def open_places(study: Study, effort: Effort, out: Path, resume: bool) -> Path:
    """Make the directories of a study and of its jobs, or see that they suit."""
    jobs, directory = study.jobs(effort), out / study.name
    with _worded(directory):
        for place in _places(jobs):  # nobody is asked to resume what another began
            _open(out / place, effort, resume=True, shared=True)
        _open(directory, effort, resume)
        for job in jobs:
            _file(out, study, job).parent.mkdir(exist_ok=True)
    return directory


def holds_run(out: Path) -> bool:
    """Whether some study was begun there."""
    return any(out.glob(f"*/{_NOTE}"))


def _places(jobs: Sequence[Job]) -> tuple[str, ...]:
    """Places of jobs that studies share."""
    return tuple(sorted({job.place for job in jobs if job.place}))


def _file(out: Path, study: Study, job: Job) -> Path:
    return out / (job.place or study.name) / "jobs" / f"{job.key}.jsonl"


def _open(
    directory: Path, effort: Effort, resume: bool, *, shared: bool = False
) -> None:
    """Make the directory, or see that what is there was asked for alike.

    The note comes first: a kill leaves nothing, a leftover of writing it, or a run.
    """
    what = {"schema": _SCHEMA, "bayesmdp": __version__, "study": directory.name}
    asked = json.dumps({**what, **asdict(effort)}, indent=2)
    note = directory / _NOTE
    if note.exists():
        before = note.read_text(encoding="utf-8")
        if before != asked:
            whose = ", which studies share," if shared else ""
            raise ArgumentError(
                f"`{directory}`{whose} was begun {_otherwise(before, effort)}, see "
                f"`{note}`: give the same, or name another place with `--out`."
            )
        if not resume:
            raise ArgumentError(
                f"`{directory}` holds a run already: go on with `--resume`, or name "
                "another place with `--out`."
            )
    elif directory.exists() and not set(directory.iterdir()) <= _leftovers(directory):
        raise ArgumentError(
            f"`{directory}` is not empty and holds no run: name another place with "
            "`--out`."
        )
    directory.mkdir(parents=True, exist_ok=True)
    for leftover in _leftovers(directory):
        leftover.unlink(missing_ok=True)
    write_atomic(note, asked)


def _otherwise(note: str, effort: Effort) -> str:
    """Say in what a note differs from what is asked for."""
    try:
        then = json.loads(note)
        before, version = Effort(*(then[x] for x in asdict(effort))), then["bayesmdp"]
    except (ValueError, KeyError, TypeError, BayesmdpError):
        return "otherwise"
    if before == effort:
        return f"by bayesmdp {version}"
    now = effort.options or "none"
    return f"with {before.options or 'no options'}, and this call has {now}"


def _leftovers(directory: Path) -> set[Path]:
    """Files of a kill in the middle of a write."""
    return set(directory.rglob(f"{HIDDEN}*"))


def _worked(
    study: Study, jobs: Sequence[Job], pool: ProcessPoolExecutor | None
) -> Iterator[tuple[Job, list[Record], float]]:
    """Yield jobs as they are done, in any order."""
    if pool is None:
        for job in jobs:
            with _stopped_at_once():
                done = _timed(study.work, job.params)
            yield job, *done
        return
    waiting: dict[Future[tuple[list[Record], float]], Job] = {
        pool.submit(_timed, study.work, job.params): job for job in jobs
    }
    try:
        for future in as_completed(waiting):
            yield waiting[future], *future.result()
    except BaseException:
        for future in waiting:
            future.cancel()
        raise


class _Stopped(BaseException):
    """Ctrl-C, in a form that no search takes for a wish to see its best so far."""


@contextmanager
def _stopped_at_once() -> Iterator[None]:
    """End a job on Ctrl-C: what a search returns then is not a job's record."""
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield  # somebody else listens, or nobody shall
        return

    def stop(*_: object) -> None:
        raise _Stopped

    signal.signal(signal.SIGINT, stop)
    try:
        yield
    except _Stopped:
        raise KeyboardInterrupt from None
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def workers(n_jobs: int) -> Iterator[ProcessPoolExecutor | None]:
    """Yield processes that start when they are needed; None for this one alone."""
    if n_jobs == 1:
        yield None
        return
    others = set(multiprocessing.active_children())
    # Threads of this process must not be copied into the children.
    pool = ProcessPoolExecutor(
        n_jobs, mp_context=multiprocessing.get_context("spawn"), initializer=_prepare
    )
    with pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            # What they are at is lost anyhow, and may take minutes.
            for process in set(multiprocessing.active_children()) - others:
                process.terminate()
            raise


def _at(
    pool: ProcessPoolExecutor | None, n_jobs: int
) -> AbstractContextManager[ProcessPoolExecutor | None]:
    return workers(n_jobs) if pool is None else nullcontext(pool)


def _prepare() -> None:
    """Work on one thread, leave Ctrl-C to the parent, and end where it is killed."""
    os.environ["BAYESMDP_THREADS"] = "1"
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)  # nobody is left to take what this process finds


def _timed(
    work: Callable[..., list[Record]], params: Mapping[str, Any]
) -> tuple[list[Record], float]:
    began = time.perf_counter()
    return work(**params), time.perf_counter() - began


def _keep(path: Path, records: list[Record], seconds: float) -> None:
    write_atomic(path.with_suffix(".seconds"), f"{seconds:.3f}\n")
    write_atomic(path, "".join(json.dumps(x, sort_keys=True) + "\n" for x in records))


def _draw(study: Study, records: list[Record], directory: Path) -> tuple[str, ...]:
    if study.plot is None:
        return ()
    if find_spec("matplotlib") is None:
        return ('the picture needs matplotlib: pip install "bayesmdp[paper]"',)
    from matplotlib import rc_context

    for name, figure in study.plot(records).items():
        _settle(figure)
        # Without a date and with fixed ids, so that equal pictures are equal files.
        for kind, more in (("png", {"dpi": 150}), ("svg", {"metadata": _NO_DATE})):
            drawn = BytesIO()
            with rc_context({"svg.hashsalt": study.name}):
                figure.savefig(drawn, format=kind, **more)
            write_atomic(directory / f"{name}.{kind}", drawn.getvalue())
    return ()


def _settle(figure: Any) -> None:
    """Lay a figure out once, in rounded numbers.

    The layout's last digits differ from run to run, and names of clip paths in an SVG
    are made of all digits.
    """
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for axis in figure.axes:
        place = axis.get_position(original=True).bounds
        axis.set_position([round(float(x), 6) for x in place])


@contextmanager
def _worded(directory: Path) -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        raise BayesmdpError(
            f"Results cannot be kept in `{directory}` ({problem.strerror or problem}): "
            "name another place with `--out`."
        ) from problem
    except BrokenExecutor as broken:
        raise ExecutorError(
            f"A process that worked for `{directory}` was lost, perhaps for lack of "
            "memory: go on with `--resume` and fewer `--jobs`."
        ) from broken
