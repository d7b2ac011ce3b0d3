"""One workload in a process of its own: ``python -m benchmarks.worker NAME OPTIONS``.

Memory is then that of the workload alone, and BLAS runs on one thread because it was
told so before numpy was imported. The last line printed is the result as JSON. A
process that had to compile kernels is run again: compiling takes memory and time that
a second process does not need.
"""

import json
import os
import subprocess
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
ONE_THREAD = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")

# Imported one at a time, so that no workload pays for what another needs.
JOBS = {
    "clinical": "benchmarks.clinical:timings",
    "hierarchical": "benchmarks.clinical:hierarchical",
    "full_support": "benchmarks.clinical:full_support",
    "optimise": "benchmarks.clinical:optimise",
    "information": "benchmarks.information:measure",
    "gamma": "benchmarks.clinical:sampler",
    "large": "benchmarks.large:one_size",
    "dense": "benchmarks.large:dense",
    "planner": "benchmarks.planner:measure",
    "threads": "benchmarks.threads:measure",
    "read_make": "benchmarks.read:make",
    "read_ours": "benchmarks.read:ours",
    "read_rival": "benchmarks.read:rival",
    "read_arrays": "benchmarks.read:arrays",
}


class WorkerError(RuntimeError):
    """A workload that did not end well; the message is what it printed last."""


def start(name: str, **options: Any) -> subprocess.Popen[str]:
    """Start a workload; it reads stdin where it waits to be told to go on."""
    import bayesmdp

    source = str(Path(bayesmdp.__file__).parents[1])  # the same package as here
    path = os.pathsep.join([source, str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, **dict.fromkeys(ONE_THREAD, "1")}
    return subprocess.Popen(
        [sys.executable, "-m", "benchmarks.worker", name, json.dumps(options)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**environment, "PYTHONPATH": path.rstrip(os.pathsep)},
    )


def finish(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Wait for a workload and read its result."""
    printed, complaints = process.communicate()
    if process.returncode:
        last = (complaints.strip() or "nothing was printed").splitlines()[-1]
        raise WorkerError(f"exit code {process.returncode}: {last}")
    result: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return result


def work(name: str, **options: Any) -> dict[str, Any]:
    """Run a workload, twice where the first had to compile."""
    result = finish(start(name, **options))
    if result["compiled"]:
        result = finish(start(name, **options))
    return result


def peak_bytes() -> int:
    """Most memory this process has held.

    ``ru_maxrss`` is not enough on Linux: a new process inherits that of its parent.
    """
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
        (peak,) = (line.split()[1] for line in lines if line.startswith("VmHWM:"))
        return int(peak) * 1024
    except (OSError, ValueError):
        import resource

        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024


class Peaks:
    """Most memory held in each step of a workload, where the system tells them apart.

    Elsewhere a step's number includes those before it.
    """

    def __init__(self) -> None:
        self.steps: dict[str, int] = {}

    def mark(self, step: str) -> None:
        """End a step, and begin the next."""
        self.steps[step] = peak_bytes()
        with suppress(OSError):  # Linux: 5 resets the peak to what is held now
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")

    @property
    def most(self) -> int:
        """Most of all steps."""
        return max(self.steps.values())


def main() -> int:
    """Run the workload named on the command line."""
    name, options = sys.argv[1], json.loads(sys.argv[2])
    module, function = JOBS[name].split(":")
    result = getattr(import_module(module), function)(**options)
    from bayesmdp._jit import (
        has_compiled,
    )  # imports numba, which not all jobs need

    print(json.dumps({**result, "compiled": has_compiled()}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
