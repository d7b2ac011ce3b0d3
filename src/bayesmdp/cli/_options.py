"""Options that mean the same in every command, and how results are printed.

Defaults are shown by all commands, as the group says.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from bayesmdp._resources import told
from bayesmdp.errors import visible
from bayesmdp.priors import PRIOR_NAMES

if TYPE_CHECKING:
    from bayesmdp.posterior import Fitted
    from bayesmdp.priors import AnyPrior

Function = TypeVar("Function", bound=Callable[..., Any])
#: Of what --json prints: raised when a key goes, or comes to mean something else.
SCHEMA_VERSION = 1
#: Priors that one's own is compared with where none is named.
_USUAL = ("hierarchical", "symmetric", "scaled")

debug_option = click.option(
    "--debug", is_flag=True, help="Show where an error came from."
)

seed_option = click.option(
    "--seed", type=click.IntRange(0, 2**64 - 1), default=0, help="Random seed."
)

threads_option = click.option(
    "--threads",
    type=click.IntRange(1),
    help="Threads to use; default BAYESMDP_THREADS, else every core.",
)


def _known_device(
    _context: click.Context, _option: click.Parameter, value: str | None
) -> str | None:
    """Refuse a GPU that is not there before long work, also where none is needed."""
    if value == "cuda":
        from bayesmdp.engine import backend_of

        backend_of(value)
    return value


device_option = click.option(
    "--device",
    callback=_known_device,
    type=click.Choice(["cpu", "cuda", "auto"]),
    help="Device to compute on; auto: a GPU where there is one and it is faster; "
    "default BAYESMDP_DEVICE, else cpu.",
)


def output_options(function: Function) -> Function:
    """``--json`` and ``--quiet``."""
    as_json = click.option(
        "--json", "as_json", is_flag=True, help="Print one JSON object."
    )
    quiet = click.option(
        "-q",
        "--quiet",
        is_flag=True,
        callback=_hush,
        help="No progress and no text; warnings, errors, --json and exit code stay.",
    )
    return as_json(quiet(function))


def _hush(ctx: click.Context, param: click.Parameter, quiet: bool) -> bool:
    """Have nothing said of what takes time, as long as the command runs."""
    if quiet:
        ctx.with_resource(told(False))
    return quiet


@dataclass(frozen=True)
class Work:
    """What commands that compute are told alike: how to work, and how to tell."""

    seed: int
    threads: int | None
    as_json: bool
    quiet: bool
    device: str | None = field(default=None, kw_only=True)  # where the command asks

    @property
    def seedless(self) -> dict[str, Any]:
        """Arguments of what takes long and is given its draws."""
        found = {"threads": self.threads, "progress": wants_progress(self.quiet)}
        return found if self.device is None else {**found, "device": self.device}

    @property
    def how(self) -> dict[str, Any]:
        """Arguments of what takes long."""
        return {"seed": self.seed, **self.seedless}

    def show(self, text: str, record: dict[str, Any]) -> None:
        """Print a result: its record as JSON, its text, or nothing."""
        show(text, record, as_json=self.as_json, quiet=self.quiet)

    def remark(self, text: str) -> None:
        """Say something that is no result."""
        remark(text, quiet=self.quiet)


def work_options(function: Function) -> Function:
    """``--seed``, ``--threads``, ``--json``, ``--quiet``; the command gets `Work`."""
    found = as_one(Work, "work")(function)
    return seed_option(threads_option(output_options(found)))


def as_one(kind: type, name: str) -> Callable[[Function], Function]:
    """Hand a command those of its options that are fields of a record as one."""

    def decorate(function: Function) -> Function:
        @wraps(function)
        def wrapper(*args: Any, **options: Any) -> Any:
            known = [x.name for x in fields(kind) if x.name in options]
            one = kind(**{x: options.pop(x) for x in known})
            return function(*args, **{name: one}, **options)

        return cast("Function", wrapper)

    return decorate


def count(
    name: str, least: int, default: int | None, said: str
) -> Callable[[Function], Function]:
    """Return an option that is a whole number: ``--folds``, or ``--draws n_draws``."""
    kind = click.IntRange(least)
    return click.option(*name.split(), type=kind, default=default, help=said)


draws_option = count(
    "--draws n_draws",
    2,
    10_000,
    "Draws of the posterior; errors shrink with the square root of their number, but "
    "not below that of the default prior's finite Markov chains.",
)


def _reward(
    ctx: click.Context, param: click.Parameter, said: tuple[str, ...]
) -> str | dict[str, float] | None:
    """Return a name, or weights by name."""
    if not said:
        return None
    if len(said) == 1 and "=" not in said[0]:
        return said[0]
    found: dict[str, float] = {}
    for item in said:
        name, _, weight = item.partition("=")
        if name in found:
            raise click.BadParameter(f"{name!r} is given twice.")
        try:
            found[name] = float(weight)
        except ValueError:
            raise click.BadParameter(
                f"{item!r} is not of the form NAME=WEIGHT, such as qaly=30000."
            ) from None
    return found


reward_option = click.option(
    "--reward",
    multiple=True,
    metavar="NAME[=WEIGHT]",
    callback=_reward,
    help="Reward to use where a task has several; with weights their sum (net "
    "benefit): --reward qaly=30000 --reward cost=-1.",
)

restrict_option = click.option(
    "--restrict",
    "restricted",
    is_flag=True,
    help="Drop unavailable actions from policies in files and from always:ACTION.",
)


def priors_options(function: Function) -> Function:
    """``--prior`` and ``--fallback``, of commands that compare priors."""
    prior = click.option(
        "--prior",
        "names",
        type=click.Choice(PRIOR_NAMES),
        multiple=True,
        help="A prior to compare with the one of RUN; may be repeated; "
        f"{', '.join(_USUAL)} where not given, and with --fallback sparse.",
    )
    return prior(fallback_option(function))


fallback_option = click.option(
    "--fallback",
    metavar="STATE",
    help="A state that is always possible, such as death.",
)


def state_said(said: str, labels: Sequence[object] | None) -> str | int:
    """Return the state that was said: a label, or a number where there are none."""
    is_id = labels is None and said.isascii() and said.isdecimal() and len(said) < 19
    return int(said) if is_id else said


def priors_beside(
    posterior: "Fitted",
    names: tuple[str, ...],
    fallback: str | None,
    also: str | None = None,
) -> "dict[str, AnyPrior]":
    """Return the prior of a run and those that were named, or the usual ones.

    ``also`` is one more of them, by the name it has in what this returns.
    """
    from bayesmdp.priors import usual_priors

    labels = posterior.task.state_labels
    state = None if fallback is None else state_said(fallback, labels)
    # without a fallback, pairs never visited have no next state
    usual = _USUAL if state is None else (*_USUAL, "sparse")
    more = () if also in (None, "as fitted", *usual) else (also,)
    return usual_priors(
        posterior.prior, names or (*usual, *filter(None, more)), fallback=state
    )


policy_out_option = click.option(
    "--policy-out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write the policy as CSV: state, action, probability.",
)

effort_option = click.option(
    "--effort",
    type=click.Choice(["quick", "normal", "thorough"]),
    default="normal",
    help="How many draws and steps; quick takes about a third of normal, thorough "
    "twenty times as long.",
)


def _pairs(
    ctx: click.Context, param: click.Parameter, said: tuple[str, ...]
) -> dict[str, Any]:
    """Return what was said of each role or code."""
    found: dict[str, Any] = {}
    example = "state=cluster" if param.name == "columns" else "2=death"
    for item in said:
        key, equals, name = item.partition("=")
        if not (key and equals and name):
            raise click.BadParameter(
                f"{item!r} is not of the form {param.metavar}, such as {example}."
            )
        if key in found and (param.name, key) != ("columns", "state"):
            raise click.BadParameter(f"{key!r} is given twice.")
        found.setdefault(key, []).append(name)
    return {key: names if names[1:] else names[0] for key, names in found.items()}


_READING: dict[str, dict[str, Any]] = {
    "columns": {
        "multiple": True,
        "metavar": "ROLE=NAME",
        "callback": _pairs,
        "help": "Which column is the state, action, next_state, reward, episode, step, "
        "...; may be repeated, and several for state are joined; found by usual names "
        "where not given.",
    },
    "labels": {
        "is_flag": True,
        "help": "Whole numbers are names of states and actions, not ids from 0.",
    },
    "outcome": {
        "multiple": True,
        "metavar": "CODE=STATE",
        "callback": _pairs,
        "help": "What a code in the column of outcomes means, such as 2=death or "
        "0=censored; may be repeated; not needed where the column holds states.",
    },
    "censored": {
        "multiple": True,
        "metavar": "LABEL",
        "help": "A label of states or outcomes that means that only the follow-up "
        "ended, such as alive; may be repeated; `censored` always does.",
    },
    "missing": {
        "multiple": True,
        "metavar": "CODE",
        "callback": lambda _, __, said: said or None,
        "help": "A missing-value code; may be repeated; default NA, NaN, NULL and .; "
        "'' for empty cells only.",
    },
    "time": {
        "metavar": "COLUMN",
        "help": "Column with the times of visits, where rows are visits and not steps.",
    },
    "every": {
        "type": float,
        "help": "Length of a step in the unit of --time: visits are put on a regular "
        "grid, the last observation carried forward.",
    },
    "limit": {
        "type": click.IntRange(0),
        "help": "Largest number of steps for which a visit is carried forward; no "
        "limit by default.",
    },
}


def reading_options(function: Function) -> Function:
    """``--columns``, ``--labels``, ``--time`` and so on: how a log is read.

    The command gets them as ``reading``, arguments of `bayesmdp.read_transitions`.
    """

    @wraps(function)
    def wrapper(*args: Any, **options: Any) -> Any:
        reading = {name: options.pop(name) for name in _READING}
        return function(*args, reading=reading, **options)

    for name, how in reversed(_READING.items()):
        wrapper = click.option(f"--{name}", **how)(wrapper)
    return cast("Function", wrapper)


def _are_files(
    ctx: click.Context, param: click.Parameter, said: tuple[str, ...]
) -> tuple[str, ...]:
    """Look for columns among files: an option takes one ``ROLE=NAME``."""
    for item in said:
        if "=" in item and not Path(item).exists():
            raise click.BadParameter(
                f"there is no file {item!r}; for a column, repeat the option: "
                f"--columns {item}."
            )
    return said


files_argument = click.argument(
    "files", nargs=-1, required=True, metavar="FILE...", callback=_are_files
)


def show(
    text: str,
    record: dict[str, Any],
    *,
    as_json: bool = False,
    quiet: bool = False,
    styled: bool = False,
) -> None:
    """Print a result: its record as JSON, its text, or nothing.

    Text that is ``styled`` has control characters of our own, and no others.
    """
    if as_json:
        said = {"schema_version": SCHEMA_VERSION, **record}
        click.echo(json.dumps(said, indent=2, allow_nan=False))
    elif not quiet:
        if not styled:
            text = "\n".join(visible(line) for line in text.split("\n"))
        click.echo(text)


def remark(text: str, *, quiet: bool = False) -> None:
    """Say something that is no result."""
    if not quiet:
        click.echo(f"bayesmdp: {visible(text)}", err=True)


def wants_progress(quiet: bool) -> bool | None:
    """No bar where none is wanted; otherwise on a terminal."""
    return False if quiet else None
