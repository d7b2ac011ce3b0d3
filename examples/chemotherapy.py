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
them from the package's source on CRAN, or from a folder that you have; the package
rdata reads them (``pip install rdata``). In R, ``save(chemo_cea, file =
"chemo_cea.rda")`` and the same for ``chemo_pars``, after ``library(voi)``, write the
files.

Run with ``python examples/chemotherapy.py`` or, with a folder,
``python examples/chemotherapy.py FOLDER``.
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
FILES = ("chemo_cea", "chemo_pars")
#: What is asked about: side effects of the new drug, and their log odds ratio.
ASKED = ("p_side_effects_t2", "logor_side_effects")
THRESHOLD = 20_000
SOURCES = (
    "https://cran.r-project.org/src/contrib/voi_1.0.3.tar.gz",
    "https://cran.r-project.org/src/contrib/Archive/voi/voi_1.0.3.tar.gz",
)


def download(folder: Path) -> None:
    """Take the files out of the package's source on CRAN."""
    for source in SOURCES:
        try:
            with urllib.request.urlopen(source, timeout=30) as answer:
                packed = io.BytesIO(answer.read())
        except (urllib.error.URLError, TimeoutError):
            continue
        with tarfile.open(fileobj=packed) as package:
            for name in FILES:
                member = package.extractfile(f"voi/data/{name}.rda")
                assert member is not None
                (folder / f"{name}.rda").write_bytes(member.read())
        return
    sys.exit(
        f"CRAN cannot be reached. Where it can: download {SOURCES[0]}, unpack it, and "
        "give its folder voi/data to this script."
    )


def read(folder: Path) -> dict[str, np.ndarray]:
    """Read costs ``c`` and effects ``e`` [D, 2], thresholds ``k``, parameters [D]."""
    for name in FILES:
        if not (folder / f"{name}.rda").is_file():
            sys.exit(f"There is no {name}.rda in {folder}: give voi's folder data.")
    try:
        import rdata
    except ImportError:
        sys.exit("R's files are read by rdata, which `pip install rdata` gets.")
    found: dict[Any, Any] = {}
    for name in FILES:
        found |= dict(rdata.read_rda(folder / f"{name}.rda")[name])
    return {str(name): np.asarray(x) for name, x in found.items()}


def analyse(draws: dict[str, np.ndarray]) -> bm.economics.CostEffectiveness:
    """Set costs beside effects at the thresholds that came with them."""
    return bm.economics.from_samples(draws["c"], draws["e"], NAMES, draws["k"])


def blocks(net_benefit: np.ndarray, parameter: np.ndarray, n: int) -> float:
    """EVPPI from means over ``n`` blocks of draws, sorted by the parameter."""
    order = np.argsort(parameter, kind="stable")
    means = net_benefit[order].reshape(n, -1, net_benefit.shape[1]).mean(axis=1)
    return float(means.max(axis=1).mean() - means.mean(axis=0).max())


def main(folder: Path | None = None) -> None:
    """Print the incremental table, EVPI, acceptability and EVPPI."""
    if folder is None:
        with tempfile.TemporaryDirectory() as made:
            download(Path(made))
            draws = read(Path(made))
    else:
        draws = read(folder)
    ce = analyse(draws)
    print(ce.summary())
    print(f"\n{'threshold':>9} {'EVPI':>10} {'Novel is best':>14}")
    for k, value, share in zip(ce.thresholds, ce.evpi, ce.ceac["Novel"], strict=True):
        print(f"{k:>9,.0f} {value:>10.4f} {share:>14.4f}")
    net_benefit = THRESHOLD * draws["e"] - draws["c"]
    print(f"\nEVPPI at {THRESHOLD:,}, by regression; by 20 and by 40 blocks of draws")
    for name in ASKED:
        found = bm.information.evppi(net_benefit, draws[name])
        coarse, fine = (blocks(net_benefit, draws[name], n) for n in (20, 40))
        print(f"{name:>18} {found.value:.1f} ± {found.mcse:.1f}; ", end="")
        print(f"{coarse:.4f} and {fine:.4f}")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]))
