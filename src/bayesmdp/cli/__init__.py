"""The command line: parses, calls the public API, prints; no logic.

`Command` and the options serve programs beside the package too, so that they take the
same options and tell problems alike.
"""

from bayesmdp.cli._main import Command, main
from bayesmdp.cli._options import (
    debug_option,
    output_options,
    remark,
    show,
    threads_option,
    wants_progress,
)

__all__ = ["Command", "debug_option", "main", "show"]
