"""The ``bayesmdp`` command: one file in ``commands/`` is one command.

A module there defines ``command``; its name, with ``-`` for ``_``, is the command's.
Results go to stdout, everything else to stderr. Exit codes: 0; 1 for done, with
warnings; 2 for what the caller can fix, one sentence; 130 after Ctrl-C.

What is written after a reader such as ``head`` has gone is forgotten.
"""

import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, TextIO, cast

import click

from bayesmdp._checks import did_you_mean, spelled_as_options
from bayesmdp._resources import limit_at_fault
from bayesmdp._version import __version__
from bayesmdp.cli import commands
from bayesmdp.cli._options import debug_option, remark
from bayesmdp.errors import BayesmdpError, BayesmdpWarning, CacheWarning


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


_GIVEN = "bayesmdp.given"  # words of the command line, without values after a =
_OWN = (click.ClickException, click.exceptions.Exit, click.Abort)


class _Commands(click.Group):
    """Finds commands by their files and turns library errors into one sentence."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        found = iter_modules(commands.__path__)
        return sorted(module.name.replace("_", "-") for module in found)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in self.list_commands(ctx):
            return None
        module = import_module(f"{commands.__name__}.{name.replace('-', '_')}")
        command = module.command
        if not isinstance(command, click.Command):
            raise TypeError(f"{module.__name__} must define a click command")
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take --debug also after the command, where people add it."""
        end = args.index("--") if "--" in args else len(args)
        rest = [x for x in args[:end] if x != "--debug"]
        moved = ["--debug"] * (len(rest) < end)
        ctx.meta[_GIVEN] = {x.partition("=")[0] for x in rest}
        with _told_interrupt():  # help imports every command
            return click.Group.parse_args(self, ctx, moved + rest + args[end:])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known, name = self.list_commands(ctx), args[0]
        if name not in known and not name.startswith("-"):
            ctx.fail(f"No such command {name!r}{did_you_mean(name, known)}.")
        return click.Group.resolve_command(self, ctx, args)

    def main(self, *args: Any, **settings: Any) -> Any:
        with _told_streams():
            return click.Group.main(self, *args, **settings)

    def invoke(self, ctx: click.Context) -> object:
        with _told(ctx):
            return click.Group.invoke(self, ctx)


class Command(click.Command):
    """A command of its own that tells problems as `bayesmdp` does; add `debug_option`.

    For programs beside the package that are run as ``python -m NAME``.
    """

    def main(self, *args: Any, **settings: Any) -> Any:
        """Run it; streams may close before the end."""
        with _told_streams():
            return click.Command.main(self, *args, **settings)

    def invoke(self, ctx: click.Context) -> object:
        """Run it; what goes wrong is one sentence and an exit code."""
        with _told(ctx):
            return click.Command.invoke(self, ctx)


@contextmanager
def _told_streams() -> Iterator[None]:
    with patient_streams():
        try:
            yield
        except OSError as problem:  # in what click itself prints, as help
            _tell(problem)
            sys.exit(2)


@contextmanager
def _told(ctx: click.Context) -> Iterator[None]:
    """Tell warnings and errors, and exit accordingly."""
    debug = ctx.params.pop("debug")
    with spelled_as_options(), _told_warnings() as warned, _told_interrupt():
        ctx.obj = warned
        try:
            yield
            sys.stdout.flush()  # a full disk shows here, not after the end
        except _OWN:
            raise
        except Exception as problem:  # told, and shown by --debug
            if debug:
                traceback.print_exc()
            _tell(problem, _spellings(ctx))
            ctx.exit(2)
    if warned:
        ctx.exit(1)


@contextmanager
def _told_interrupt() -> Iterator[None]:
    """End with 130 after Ctrl-C, where click would say 1."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo("bayesmdp: interrupted.", err=True)
        raise click.exceptions.Exit(130) from None


def _spellings(ctx: click.Context) -> dict[str, str]:
    """Return options by the parameters that messages name.

    Those that were given or have a default: what a message calls `discount` may stand
    in a task file.
    """
    group, name, given = ctx.command, ctx.invoked_subcommand, ctx.meta.get(_GIVEN, ())
    command = None
    if isinstance(group, _Commands) and name is not None:
        command = group.get_command(ctx, name)
    found = {}
    for x in [] if command is None else command.params:
        known = isinstance(x.default, str | int | float) or {*x.opts} & {*given}
        if isinstance(x, click.Option) and known:
            found[str(x.name)] = x.opts[-1]
    return found


def _tell(problem: Exception, spellings: Mapping[str, str] = {}) -> None:
    """Say what happened in one sentence, with options as they are spelled here."""
    if isinstance(problem, BayesmdpError):
        said = str(problem)
        for name, option in spellings.items():
            said = said.replace(f"`{name}`", f"`{option}`")
    elif (fault := limit_at_fault(problem)) is not None:
        said = fault
    elif isinstance(problem, OSError):
        forget(sys.stdout)
        said = f"cannot go on: {problem.strerror or problem}."
    elif isinstance(problem, MemoryError):
        said = "cannot go on: there is not enough memory."
    else:
        said = (
            f"internal error, please report it: {type(problem).__name__}: "
            f"{problem}; `--debug` shows where."
        )
    remark(said)


@contextmanager
def _told_warnings() -> Iterator[list[str]]:
    """Show each warning once, and collect those of this package."""
    shown: set[str] = set()
    ours: list[str] = []

    def show(
        message: Warning | str, category: type[Warning], *_: Any, **__: Any
    ) -> None:
        if str(message) in shown:
            return
        shown.add(str(message))
        counts = issubclass(category, BayesmdpWarning)
        if counts and not issubclass(category, CacheWarning):
            ours.append(str(message))
        remark(f"warning: {message}")

    with warnings.catch_warnings():
        warnings.showwarning = show
        warnings.simplefilter("always", BayesmdpWarning)
        yield ours


_EPILOG = """\b
A whole analysis:
  bayesmdp validate ward.csv
  bayesmdp fit ward.csv --init task.toml
  bayesmdp fit ward.csv --task task.toml --min-count 5 -o ward
  bayesmdp optimise ward
  bayesmdp compare ward behaviour mle nominal optimised
  bayesmdp prior-sensitivity ward optimised
  bayesmdp compare-priors ward ward.csv
  bayesmdp check ward ward.csv
  bayesmdp negative-control ward ward.csv
  bayesmdp cross-fit ward ward.csv
  bayesmdp off-policy ward ward.csv
  bayesmdp report ward -o ward.html

Exit codes: 0 done; 1 done, with warnings; 2 bad input; 130 interrupted.
"""


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
    epilog=_EPILOG,
)
@debug_option
@click.version_option(__version__, prog_name="bayesmdp")
def main() -> None:
    """From logged transitions to a policy you can defend.

    Example: bayesmdp demo
    """
