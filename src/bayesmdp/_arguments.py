"""How messages spell an argument: as in Python, or as an option of the command line.

One table maps arguments to options. Messages that name a remedy take its spelling from
here, so that what is said can be typed where it is read.
"""

from collections.abc import Iterator
from contextlib import contextmanager

#: In Python, and on the command line.
_SPELLED = {
    "censored": ("censored=[...]", "--censored LABEL"),
    "concentration": ("concentration", "--concentration"),
    "effort": ("effort", "--effort"),
    "every": ("every=...", "--every LENGTH"),
    "fallback": ("FallbackPrior(prior, state)", "--fallback STATE"),
    "hierarchical": ("HierarchicalPrior()", "--prior hierarchical"),
    "labels": ("labels=True", "--labels"),
    "min_count": ("min_count={0}", "--min-count {0}"),
    "missing": ("missing=[...]", "--missing CODE"),
    "outcome": (
        "outcome={{'2': 'death', '0': 'censored'}}",
        "--outcome 2=death --outcome 0=censored",
    ),
    "overwrite": ("overwrite=True", "--overwrite"),
    "permute": ("permute={0!r}", "--permute {0}"),
    "restrict": ("`bm.restrict(policy, posterior)`", "--restrict"),
    "resume": ("`resume`", "--resume"),
    "reward": ("`reward={0!r}`", "--reward {0}"),
    "source": ("`source`: ", ""),
    "time": ("time='...'", "--time COLUMN"),
}
_options = [False]


def argument(name: str, value: object = None) -> str:
    """Spell an argument, with its value where it needs one."""
    return _SPELLED[name][_options[-1]].format(value)


def column(role: str, name: str | None = None) -> str:
    """Spell how the column of a role is named, or one that is to be found."""
    if _options[-1]:
        return f"--columns {role}={name or 'NAME'}"
    return f"columns={{{role!r}: {'...' if name is None else repr(name)}}}"


@contextmanager
def spelled_as_options() -> Iterator[None]:
    """Have messages speak of options, as long as a command runs."""
    _options.append(True)
    try:
        yield
    finally:
        _options.pop()
