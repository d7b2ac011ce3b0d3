"""What a new process costs, beside what it must import.

Ratios of times, so that a slow machine passes too; each is the best of several runs, by
the processor's clock, which other work on the machine slows down least. A first
evaluation is among the tests of integration.
"""

import os
import subprocess
import sys
import textwrap

HEAVY = ["numba", "scipy", "duckdb", "plotly", "rich", "click", "jinja2", "narwhals"]
HEAVY += [
    "matplotlib",
    "cupy",
    "concurrent.futures",
    "logging",
]  # the last by the one before


def run(script: str, **environment: str) -> str:
    """Run a script in a new process and return what it prints."""
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


def test_importing_the_package_imports_nothing_heavy() -> None:
    script = f"""
        import sys, bayesmdp
        print(*[name for name in {HEAVY} if name in sys.modules])
    """
    assert run(script) == ""


def test_a_heavy_import_would_be_noticed() -> None:
    script = f"""
        import sys, bayesmdp.engine
        print(*[name for name in {HEAVY} if name in sys.modules])
    """
    assert "numba" in run(script).split()


def test_importing_the_package_takes_less_than_six_times_as_long_as_numpy() -> None:
    script = """
        import time
        began = time.process_time()
        import numpy
        between = time.process_time()
        import bayesmdp
        print(between - began, time.process_time() - between)
    """
    seconds = [[float(word) for word in run(script).split()] for _ in range(3)]
    numpys, ours = (min(times) for times in zip(*seconds, strict=True))
    assert ours < 6 * numpys  # 2.8 times
