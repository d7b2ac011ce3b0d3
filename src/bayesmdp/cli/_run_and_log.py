"""Commands that take a run and the log it was fitted from: RUN FILE..."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from bayesmdp.cli._options import (
    Function,
    Work,
    files_argument,
    load_run,
    reading_options,
    run_argument,
)

if TYPE_CHECKING:
    from bayesmdp import Transitions
    from bayesmdp.posterior import Fitted


class _Result(Protocol):
    """What such a command finds."""

    def summary(self) -> str: ...
    def to_dict(self) -> dict[str, Any]: ...


def run_and_log_arguments(function: Function) -> Function:
    """``RUN``, ``FILE...`` and how to read them."""
    return run_argument(files_argument(reading_options(function)))


def load_run_and_log(
    run: Path,
    files: tuple[str, ...],
    reading: dict[str, Any],
    reward: str | dict[str, float] | None,
    *,
    result: str | None = None,
) -> "tuple[Fitted, Transitions]":
    """Load the belief of a run and its log; refuse the log of another run.

    ``result`` is the name under which something will be kept beside the run: where that
    cannot be written, it is said before the work.
    """
    import bayesmdp as bm

    posterior = load_run(run, reward).posterior
    if result is not None:
        bm.storage.check_target(run, result, overwrite=True)
    log = bm.read_transitions(list(files), **reading)
    if bm.model.align(log, posterior.task)[0] != posterior.counts:
        raise bm.errors.ArgumentError(
            f"`{files[0]}` does not hold the transitions that `{run}` was fitted from: "
            "give the same files and the same --columns, --labels, --time and other "
            "options of reading as to `bayesmdp fit`."
        )
    return posterior, log


def keep_and_show(run: Path, name: str, result: _Result, work: Work) -> None:
    """Keep the record beside the run, in place of an earlier one, and print it."""
    import bayesmdp as bm

    bm.storage.save_result(run, name, result, overwrite=True)
    record = {"run": str(run), **result.to_dict()}
    work.show(result.summary(), record)
