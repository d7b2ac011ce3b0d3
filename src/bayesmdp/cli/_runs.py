"""What most commands are about: a run, its policies, and the log it was fitted from.

Policies are called by a word, or read from a file.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from bayesmdp.cli._options import (
    Function,
    Work,
    as_one,
    files_argument,
    output_options,
    reading_options,
    remark,
    reward_option,
    seed_option,
    threads_option,
)

if TYPE_CHECKING:
    from bayesmdp import Optimisation, Transitions
    from bayesmdp._typing import FloatArray
    from bayesmdp.posterior import Fitted
    from bayesmdp.storage import Run

#: What results of a run are called.
OPTIMISED, COMPARISON = "optimised", "comparison"
_SUFFIXES = (".csv", ".npy")


@dataclass(frozen=True)
class Job(Work):
    """A run and what a command is told alike about it; nothing is read before asked."""

    path: Path
    reward: str | dict[str, float] | None = None
    restricted: bool = False  # policies lose actions that are not available
    files: tuple[str, ...] = ()
    reading: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def run(self) -> "Run":
        """The run, with one of its task's rewards where that was asked for."""
        import bayesmdp as bm

        found = bm.storage.load(self.path)
        if self.reward is None:
            return found
        return replace(found, posterior=found.posterior.with_reward(self.reward))

    @property
    def posterior(self) -> "Fitted":
        """What is believed."""
        return self.run.posterior

    def log(self, result: str) -> "Transitions":
        """Read the log; refuse that of another run.

        ``result`` is the name under which something will be kept beside the run: where
        that cannot be written, it is said before the work.
        """
        import bayesmdp as bm

        run = self.run
        self.reserve(result)
        log = bm.read_transitions(list(self.files), **self.reading)
        bm.storage.check_log(run, log, self.files[0])
        return log

    def reserve(self, name: str, *, overwrite: bool = True) -> None:
        """Say before the work where a result cannot be kept."""
        import bayesmdp as bm

        bm.storage.check_target(self.path, name, overwrite=overwrite)

    def keep(self, name: str, result: Any) -> Path:
        """Keep a result beside the run, in place of an earlier one."""
        import bayesmdp as bm

        return bm.storage.save_result(self.path, name, result, overwrite=True)

    def tell(self, result: Any, text: str = "", /, **more: Any) -> None:
        """Print a record, with what else is to be said in its JSON."""
        record = {"run": str(self.path), **more, **result.to_dict()}
        self.show(text or result.summary(), record)

    def keep_and_tell(self, name: str, result: Any) -> None:
        """Keep a result and print it."""
        self.keep(name, result)
        self.tell(result)

    def end(self, code: int, said: str) -> NoReturn:
        """Say why the exit code is not 0, and end."""
        remark(said)
        raise click.exceptions.Exit(code)

    def policy(self, said: str, option: str = "POLICY") -> "tuple[str, FloatArray]":
        """Return a policy ``[S, A]`` with its name; ``option`` is how it was given."""
        ((name, found),) = self.policies([said], option=option).items()
        return name, found

    def policies(
        self, wanted: Sequence[str], *, least: int = 0, option: str = "POLICY"
    ) -> "dict[str, FloatArray]":
        """Return policies ``[S, A]`` by name, in the order given.

        A name is one that `policies.named_policy` knows, ``optimised`` for what
        `optimise` kept, or a file, which is called by its name without ending.
        """
        import numpy as np

        import bayesmdp as bm
        from bayesmdp.errors import PolicyError

        if len(wanted) < least:
            raise bm.errors.ArgumentError(
                f"`{option}` has {wanted[0]!r:.60} alone: name two policies or more."
            )
        found: dict[str, FloatArray] = {}
        for said in wanted:
            name = _called(said)
            if name in found:
                which = "one" if said == name else repr(said)
                raise PolicyError(
                    f"There are two policies {name!r}: leave out {which}."
                )
            policy = self._find(said, option)
            if self.restricted and said.startswith(bm.policies.ALWAYS):
                whole, policy = policy, bm.restrict(policy, self.posterior)
                if not np.array_equal(whole, policy):
                    name = restricted_name(name)  # it no longer does what its name says
            found[name] = policy
        return found

    def optimised(self) -> "Optimisation | None":
        """Return what `optimise` kept in the run, if it did."""
        import bayesmdp as bm

        if OPTIMISED not in self.run.results:
            return None
        found: Optimisation = bm.storage.load_result(
            self.path, OPTIMISED, bm.Optimisation
        )
        return found

    def _find(self, said: str, option: str) -> "FloatArray":
        import bayesmdp as bm
        from bayesmdp._checks import did_you_mean

        if said == OPTIMISED:
            kept = self.optimised()
            if kept is None:
                raise bm.errors.StorageError(
                    f"`{self.path}` has no optimised policy yet: `bayesmdp optimise "
                    f"{self.path}` makes it."
                )
            return kept.policy
        always, known = said.startswith(bm.policies.ALWAYS), _known()
        if always or said in known:
            posterior = self.posterior  # what is wrong with --reward is said of it
            try:
                return bm.policies.named_policy(
                    said, posterior, seed=self.seed, threads=self.threads
                )
            except bm.errors.TaskError as problem:
                if not always:
                    raise
                said = f"`{option}` {said!r:.60}: {problem}"  # of its action
                raise bm.errors.PolicyError(said) from None
        if Path(said).suffix.lower() in _SUFFIXES or Path(said).is_file():
            return bm.storage.read_policy(
                said, self.posterior, restricted=self.restricted
            )
        known = (*known, f"{bm.policies.ALWAYS}ACTION")
        raise bm.errors.PolicyError(
            f"There is no policy {said!r:.60}{did_you_mean(said, known)}: take one of "
            f"{', '.join(known)}, or a file that ends in .csv or .npy."
        )


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


def restricted_name(name: str) -> str:
    """Name a policy that lost actions which are not available."""
    return f"{name}, restricted"


def job_options(function: Function) -> Function:
    """``--reward`` and those of all work; the command gets a `Job`.

    Below all other options of the command, of which `Job` takes those it knows.
    """
    found = as_one(Job, "job")(function)
    return reward_option(seed_option(threads_option(output_options(found))))


run_argument = click.argument("path", metavar="RUN", type=click.Path(path_type=Path))
policies_argument = click.argument(
    "policies", nargs=-1, required=True, metavar="POLICY..."
)


def run_and_log_arguments(function: Function) -> Function:
    """``RUN``, ``FILE...`` and how to read them."""
    return run_argument(files_argument(reading_options(function)))
