"""Which examples run: all again where the package changed since they last ran.

The gallery looks at scripts alone: it would keep the numbers of an old package.
"""

import hashlib
import shutil
import subprocess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
STAMP = ROOT / "docs" / "gallery" / ".package"


def fingerprint() -> str:
    """Digest of every source file of the package, and its name."""
    found = hashlib.sha256()
    for path in sorted((ROOT / "src" / "bayesmdp").rglob("*.py")):
        found.update(str(path.relative_to(ROOT)).encode())
        found.update(path.read_bytes())
    return found.hexdigest()


def package_changed() -> bool:
    """Whether the gallery was last run with another package."""
    return STAMP.exists() and STAMP.read_text() != fingerprint()


def in_r(data: str) -> bool:
    """Whether R is here and has a data set of one of its packages."""
    if shutil.which("Rscript") is None:
        return False
    asked = ["Rscript", "-e", f"invisible({data})"]
    return subprocess.run(asked, capture_output=True).returncode == 0


def keep(app: Any, exception: Exception | None) -> None:
    """Remember the package where the gallery ran to its end."""
    ran = app.config.sphinx_gallery_conf.get("plot_gallery") in (True, "True", 1, "1")
    if exception is None and ran and STAMP.parent.exists():
        STAMP.write_text(fingerprint())


def setup(app: Any) -> dict[str, bool]:
    """Join the build."""
    app.connect("build-finished", keep)
    return {"parallel_read_safe": True}
