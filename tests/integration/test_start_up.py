"""What a first evaluation costs a new process, beside what it must import."""

import os
import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.integration


def run(script: str) -> str:
    """Run a script in a new process and return what it prints."""
    command = [sys.executable, "-c", textwrap.dedent(script)]
    ran = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=120
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


FIRST = """
    import numpy as np
    import bayesmdp as bm

    world = bm.worlds.gridworld()
    prior = bm.SymmetricPrior(support=world.support)
    posterior = bm.fit(world.sample(100, seed=0), world.task, prior=prior)
    evaluation = bm.evaluate(np.full((25, 4), 0.25), posterior.draws(100, seed=0))
    print(evaluation.start_value.hex())
"""


def test_a_first_evaluation_with_a_warm_cache_takes_hardly_longer_than_imports() -> (
    None
):
    """Nothing is compiled, which takes tens of times as long."""
    answers = {run(FIRST)}  # compiles where nobody did before
    began = sum(os.times()[2:4])  # of processes that have ended
    run("import numba, scipy.special")
    between = sum(os.times()[2:4])
    answers.add(run(FIRST))
    ours = sum(os.times()[2:4]) - between
    assert ours < 6 * (between - began)  # 2.4 times
    assert len(answers) == 1
