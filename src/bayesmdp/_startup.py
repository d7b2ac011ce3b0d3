"""What stops the command while it still imports gets a sentence, as it does later on.

Before anything of the command line runs, Python imports the package. A library must let
Ctrl-C and errors through, so this looks first whether the process is the command.
"""

import os
import sys
from pathlib import Path
from types import TracebackType

from bayesmdp._resources import limit_at_fault


def _tell(
    kind: type[BaseException], problem: BaseException, trace: TracebackType | None
) -> None:
    """Say in a sentence what stopped the imports, and end."""
    if issubclass(kind, KeyboardInterrupt):
        said, code = "interrupted.", 130
    elif (fault := limit_at_fault(problem)) is not None:
        said, code = fault, 2
    else:
        sys.__excepthook__(kind, problem, trace)
        return
    sys.stderr.write(f"bayesmdp: {said}\n")
    sys.stderr.flush()
    os._exit(code)  # Python would end itself by the signal


_BY_MODULE = sys.argv[:1] == ["-m"] and "bayesmdp" in sys.orig_argv
if _BY_MODULE or [Path(x).stem for x in sys.argv[:1]] == ["bayesmdp"]:
    sys.excepthook = _tell
