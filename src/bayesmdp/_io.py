"""Files that are written whole or not at all.

A file is written under a hidden name beside its place and then renamed, which is atomic
everywhere: a reader finds the old file or the new one, and whatever goes wrong, the old
one stays.
"""

import uuid
from pathlib import Path

HIDDEN = ".bayesmdp-"  # begins the name of a file until it is whole


def write_atomic(path: Path, content: str | bytes) -> None:
    """Have a file hold this, in one moment."""
    fresh = path.with_name(f"{HIDDEN}{uuid.uuid4().hex}")
    try:
        fresh.write_bytes(content.encode() if isinstance(content, str) else content)
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)
