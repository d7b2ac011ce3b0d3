"""
Chemotherapy: costs and effects that another program drew
=========================================================

Analyse 10,000 draws of costs and effects that another program has made.

The chemotherapy model of the R package voi: a new drug with fewer side effects, at a
price. Its probabilistic analysis is stored in the package, as BCEA and voi keep such
things: a list of costs ``c`` and effects ``e``, one row per draw and one column per
treatment, and thresholds ``k``. Nothing is modelled here; the draws are read, and
`bayesmdp.economics.from_samples` gives what the R packages give, with Monte Carlo
errors.

The data belong to voi (Jackson and Heath, GPL-3,
https://cran.r-project.org/package=voi) and are not part of bayesmdp. The script takes
them from the package's source on CRAN, or from a file that you have; the package rdata
reads them (``pip install rdata``). In R, ``save(chemo_cea, file = "chemo_cea.rda")``
after ``library(voi)`` writes the file.

Run with ``python examples/chemotherapy.py`` or, with a file,
``python examples/chemotherapy.py chemo_cea.rda``.
"""

import io
import sys
import tarfile
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np

import bayesmdp as bm

NAMES = ("SoC", "Novel")
FILE = "chemo_cea.rda"
SOURCES = (
    "https://cran.r-project.org/src/contrib/voi_1.0.3.tar.gz",
    "https://cran.r-project.org/src/contrib/Archive/voi/voi_1.0.3.tar.gz",
)


def download() -> bytes:
    """Take the file out of the package's source on CRAN."""
    for source in SOURCES:
        try:
            with urllib.request.urlopen(source, timeout=30) as answer:
                packed = io.BytesIO(answer.read())
        except (urllib.error.URLError, TimeoutError):
            continue
        with tarfile.open(fileobj=packed) as package:
            member = package.extractfile(f"voi/data/{FILE}")
            if member is not None:
                return member.read()
    sys.exit(
        f"CRAN cannot be reached. Where it can: download {SOURCES[0]}, take "
        f"voi/data/{FILE} out of it, and give that file to this script."
    )


def read(path: Path) -> dict[str, np.ndarray]:
    """Read costs ``c`` and effects ``e`` [D, 2], and thresholds ``k``."""
    try:
        import rdata
    except ImportError:
        sys.exit("R's files are read by rdata, which `pip install rdata` gets.")
    found: dict[Any, Any] = rdata.read_rda(path)["chemo_cea"]
    return {str(name): np.asarray(x) for name, x in found.items()}


def analyse(draws: dict[str, np.ndarray]) -> bm.economics.CostEffectiveness:
    """Set costs beside effects at the thresholds that came with them."""
    return bm.economics.from_samples(draws["c"], draws["e"], NAMES, draws["k"])


def main(path: Path | None = None) -> None:
    """Print the incremental table, EVPI and acceptability."""
    if path is None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, FILE)
            path.write_bytes(download())
            draws = read(path)
    else:
        draws = read(path)
    ce = analyse(draws)
    print(ce.summary())
    print(f"\n{'threshold':>9} {'EVPI':>10} {'Novel is best':>14}")
    for k, value, share in zip(ce.thresholds, ce.evpi, ce.ceac["Novel"], strict=True):
        print(f"{k:>9,.0f} {value:>10.4f} {share:>14.4f}")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]))
