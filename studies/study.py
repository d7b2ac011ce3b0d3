"""A study: jobs that are pure functions, records of each, and what they come to.

A job's records depend on its parameters alone, not on the clock, the number of
processes or what ran before. They are kept as soon as the job is done, whole or not at
all (``bayesmdp._io``). So a kill loses at most the jobs in hand, and a run that was
resumed ends with the same records, summary and pictures, byte by byte, as one that was
not. The file of jobs itself has them in the order in which they came, with their times,
which no two runs share. Where times are the subject of a study it is `timed`: its
records hold measured times in fields whose names begin with ``seconds``, and equal
those of another run in all others.

    out/NAME/jobs.jsonl         what was asked for, then a line for each job
    out/NAME/records.jsonl      records of all jobs, in the order of jobs
    out/NAME/summary.md         tables and verdict
    out/NAME/*.png, *.svg       pictures, where matplotlib is installed

Studies that tell different things of the same jobs name one `Job.place` for them: each
then does only what no other has done. A place has a file of its own, which says what
was asked for, so that jobs of other options are never mixed.

    out/PLACE/jobs.jsonl
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

from bayesmdp._io import HIDDEN, JobFile, OtherJobsError, write_atomic
from bayesmdp._resources import progress_bar
from bayesmdp._version import __version__
from bayesmdp.errors import ArgumentError, BayesmdpError, ExecutorError

Record = dict[str, Any]
_SCHEMA = 2
_JOBS = "jobs.jsonl"
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

    key: str  # its name among those of its place
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


@dataclass(frozen=True)
class _Found:
    """What a job came to."""

    seconds: float
    records: list[Record]


_Files = dict[str | None, JobFile[_Found]]  # by place; None for the study's own jobs


def run_study(
    study: Study,
    effort: Effort,
    out: Path,
    *,
    n_jobs: int = 1,
    resume: bool = False,
    progress: bool | None = None,
    pool: ProcessPoolExecutor | None = None,
    so_far: bool = False,
) -> Outcome:
    """Do what is missing of a study, then tell what all of it says.

    A ``pool`` of `workers` is used in place of ``n_jobs`` processes of its own. With
    ``so_far`` nothing is done, and what was done before is told.
    """
    jobs = list(study.jobs(effort))
    if so_far and not (out / study.name / _JOBS).exists():
        raise ArgumentError(f"`{out / study.name}` holds no run to tell of.")
    files = open_places(study, effort, out, resume, so_far=so_far)
    if so_far:
        jobs = [job for job in jobs if job.key in files[job.place].done]
        if not jobs:
            raise ArgumentError(f"`{out / study.name}` holds no job that is done.")
    directory = out / study.name
    with _worded(directory):
        missing = [job for job in jobs if job.key not in files[job.place].done]
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
                found = {"seconds": round(seconds, 3), "records": records}
                files[job.place].add(job.key, found)
                if show is not None:
                    show(done, f"{done}/{len(jobs)}")
        found_by = [files[job.place].done[job.key] for job in jobs]
        records = [x for found in found_by for x in found.records]
        lines = [json.dumps(x, sort_keys=True) + "\n" for x in records]
        write_atomic(directory / "records.jsonl", "".join(lines))
        summary = (_QUICKLY if effort.quick else "") + study.tell(records)
        write_atomic(directory / "summary.md", f"# {study.title}\n\n{summary}\n")
        skipped = _draw(study, records, directory)
    seconds = sum(x.seconds for x in found_by)
    return Outcome(directory, summary, seconds, skipped, _places(jobs))


def open_places(
    study: Study, effort: Effort, out: Path, resume: bool, *, so_far: bool = False
) -> _Files:
    """Begin the files of a study and of jobs that it shares, or see that they suit.

    With ``so_far`` they are read alone: another process may be writing to them.
    """
    places = _places(study.jobs(effort))
    with _worded(out / study.name):
        files: _Files = {  # nobody is asked to resume what another began
            place: _open(out / place, effort, True, so_far, shared=True)
            for place in places
        }
        files[None] = _open(out / study.name, effort, resume, so_far)
    return files


def holds_run(out: Path) -> bool:
    """Whether some study was begun there."""
    return any(out.glob(f"*/{_JOBS}"))


def spent(out: Path) -> float:
    """Seconds of work on jobs below ``out``; jobs that studies share count once."""
    files = (file.read_bytes() for file in out.glob(f"*/{_JOBS}"))
    lines = [x for content in files for x in content.splitlines(keepends=True)]
    whole = [json.loads(x) for x in lines if x.endswith(b"\n")]
    return float(sum(x.get("seconds", 0) for x in whole))


def _places(jobs: Sequence[Job]) -> tuple[str, ...]:
    """Places of jobs that studies share."""
    return tuple(sorted({job.place for job in jobs if job.place}))


def _open(
    directory: Path, effort: Effort, resume: bool, so_far: bool, *, shared: bool = False
) -> JobFile[_Found]:
    """Begin a file of jobs, or see that what is there was asked for alike."""
    file = directory / _JOBS
    what = {"schema": _SCHEMA, "bayesmdp": __version__, "study": directory.name}
    if not so_far:
        _make_ready(directory)
    try:
        jobs = JobFile(
            file, what | asdict(effort), lambda x: _Found(**x), read_only=so_far
        )
    except OtherJobsError as other:
        whose = ", which studies share," if shared else ""
        raise ArgumentError(
            f"`{directory}`{whose} was begun {_otherwise(other.header, effort)}, see "
            f"`{file}`: give the same, or name another place with `--out`."
        ) from None
    if jobs.resumed and not (resume or so_far):
        raise ArgumentError(
            f"`{directory}` holds a run already: go on with `--resume`, or name "
            "another place with `--out`."
        )
    return jobs


def _make_ready(directory: Path) -> None:
    """Make a directory where there is none, and delete what a kill left in it."""
    there = directory.exists() and any(directory.iterdir())
    if there and not (directory / _JOBS).exists():
        raise ArgumentError(
            f"`{directory}` is not empty and holds no run: name another place with "
            "`--out`."
        )
    directory.mkdir(parents=True, exist_ok=True)
    for leftover in directory.glob(f"{HIDDEN}*"):
        leftover.unlink(missing_ok=True)


def _otherwise(header: Mapping[str, Any], effort: Effort) -> str:
    """Say in what a header differs from what is asked for."""
    try:
        before = Effort(*(header[x] for x in asdict(effort)))
        version = header["bayesmdp"]
    except (KeyError, BayesmdpError):
        return "otherwise"
    if before == effort:
        return f"by bayesmdp {version}"
    now = effort.options or "none"
    return f"with {before.options or 'no options'}, and this call has {now}"


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


def _draw(study: Study, records: list[Record], directory: Path) -> tuple[str, ...]:
    if study.plot is None:
        return ()
    if find_spec("matplotlib") is None:
        return ("the picture needs matplotlib: pip install --group studies",)
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
