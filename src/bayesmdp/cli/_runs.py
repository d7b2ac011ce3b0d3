"""What commands take: a run and the log it was fitted from (RUN FILE...), and policies.

Policies are called by a word, or read from a file.
"""

from collections.abc import Iterable
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
    from bayesmdp import Optimisation, Transitions
    from bayesmdp._typing import FloatArray
    from bayesmdp.posterior import Fitted
    from bayesmdp.storage import Run


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


#: What results of a run are called.
OPTIMISED, COMPARISON = "optimised", "comparison"
_SUFFIXES = (".csv", ".npy")


def find_policies(
    run: "Run",
    wanted: Iterable[str],
    work: Work,
    *,
    restricted: bool = False,
) -> "dict[str, FloatArray]":
    """Return policies ``[S, A]`` by name, in the order given.

    A name is one that `policies.named_policy` knows, ``optimised`` for what `optimise`
    kept, or a file, which is called by its name without ending. Policies from files
    that are ``restricted`` lose actions that are not available.
    """
    from bayesmdp.errors import PolicyError

    found: dict[str, FloatArray] = {}
    for said in wanted:
        name = _called(said)
        if name in found:
            raise PolicyError(f"There are two policies {name!r}: leave out {said!r}.")
        found[name] = _find(run, said, work, restricted)
    return found


def load_optimised(run: "Run") -> "Optimisation | None":
    """Return what `optimise` kept in a run, if it did."""
    import bayesmdp as bm

    if OPTIMISED not in run.results:
        return None
    found: Optimisation = bm.storage.load_result(run.path, OPTIMISED, bm.Optimisation)
    return found


def _known() -> tuple[str, ...]:
    from bayesmdp.policies import POLICY_NAMES

    return (*POLICY_NAMES, OPTIMISED)


def _called(said: str) -> str:
    """Name a file by its stem, unless another policy is known by that."""
    from bayesmdp.policies import ALWAYS

    if said.startswith(ALWAYS):
        return said
    file = Path(said)
    return file.name if {said, file.stem} & {*_known()} else file.stem


def _find(run: "Run", said: str, work: Work, restricted: bool) -> "FloatArray":
    import bayesmdp as bm
    from bayesmdp._checks import did_you_mean

    if said == OPTIMISED:
        kept = load_optimised(run)
        if kept is None:
            raise bm.errors.StorageError(
                f"`{run.path}` has no optimised policy yet: `bayesmdp optimise "
                f"{run.path}` makes it."
            )
        return kept.policy
    always = said.startswith(bm.policies.ALWAYS)
    if always or said in _known():
        how: dict[str, Any] = {"seed": work.seed, "threads": work.threads}
        policy = bm.policies.named_policy(said, run.posterior, **how)
        return bm.restrict(policy, run.posterior) if always and restricted else policy
    if Path(said).suffix.lower() in _SUFFIXES or Path(said).is_file():
        return bm.storage.read_policy(said, run.posterior, restricted=restricted)
    known = (*_known(), f"{bm.policies.ALWAYS}ACTION")
    raise bm.errors.PolicyError(
        f"There is no policy {said!r:.60}{did_you_mean(said, known)}: take one of "
        f"{', '.join(known)}, or a file that ends in .csv or .npy."
    )
