"""The ``bayesmdp`` command: one file in ``commands/`` is one command.

A module there defines ``command``; its name, with ``-`` for ``_``, is the command's.
Results go to stdout, everything else to stderr; a library error becomes one sentence
and exit code 2.
"""

import errno
import os
import sys
import warnings
from importlib import import_module
from pkgutil import iter_modules

import click

from bayesmdp._version import __version__
from bayesmdp.cli import commands
from bayesmdp.cli._options import as_options
from bayesmdp.errors import BayesmdpError


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

    def invoke(self, ctx: click.Context) -> object:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            try:
                result = super().invoke(ctx)
                sys.stdout.flush()  # a full disk shows here, not after the end
            except BayesmdpError as problem:
                click.echo(f"bayesmdp: {as_options(str(problem))}", err=True)
                ctx.exit(2)
            except KeyboardInterrupt:
                click.echo("bayesmdp: interrupted.", err=True)
                ctx.exit(130)
            except OSError as problem:
                if problem.errno == errno.EPIPE:
                    raise  # click's: whoever read has seen enough
                _forget_output()
                said = problem.strerror or str(problem)
                click.echo(f"bayesmdp: cannot go on: {said}.", err=True)
                ctx.exit(2)
            return result


def _forget_output() -> None:
    """Keep Python from trying again, at its end, to write what cannot be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    click.echo(f"bayesmdp: warning: {as_options(str(message))}", err=True)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="bayesmdp")
def main() -> None:
    """From logged transitions to a policy you can defend.

    Example: bayesmdp demo
    """
