"""The command line: parses, calls the public API, prints; no logic."""

from bayesmdp.cli._main import main

__all__ = ["main"]
