"""Names cannot drive a terminal: text shows their control characters escaped."""

import json
import re
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import bayesmdp as bm
from bayesmdp.cli import main

TITLE = "\x1b]0;owned\x07"  # sets a window's title
NAMES = (f"a{TITLE}", "b\x1b[2J\r", "c\x9b31m\x7f", "d\u202egnp.\u2066")
ACTIONS = ("wait\x1b[8m", "treat\x08\x08")
UNSEEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def clean(text: str, n_lines: int | None = None) -> str:
    """Return a text that only its line ends control."""
    assert not UNSEEN.search(text), ascii(text)
    if n_lines is not None:
        assert len(text.splitlines()) == n_lines
    return text


def task(**changes: object) -> bm.Task:
    given = {
        "n_states": 4,
        "n_actions": 2,
        "reward": [0.0, 0.0, 1.0, 0.0],
        "discount": 0.9,
        "terminal": NAMES[2:],
        "state_labels": NAMES,
        "action_labels": ACTIONS,
    }
    return bm.Task(**(given | changes))  # type: ignore[arg-type]


COUNTS = bm.Counts.from_arrays([0, 0, 1, 1], [0, 1, 0, 1], [1, 2, 3, 0], [3, 2, 1, 4])
POSTERIOR = bm.fit(COUNTS, task(), min_count=2, prior=bm.SymmetricPrior())
BEST = np.array([[0.5, 0.5], [0, 1], [0, 0], [0, 0]])


def test_summaries() -> None:
    escaped = "a\\x1b]0;owned\\x07"
    assert escaped in clean(task(start=NAMES[0]).summary())
    assert clean(POSTERIOR.summary())
    evaluation = bm.evaluate(BEST, POSTERIOR.draws(50))
    assert f"state {escaped}" in clean(evaluation.summary())
    assert escaped in clean(bm.evaluate_analytic(BEST, POSTERIOR).summary())
    table = bm.compare({"x\ny\x1b": BEST, "z": BEST}, POSTERIOR.draws(50))
    assert "x\\ny\\x1b" in clean(str(table), 5)
    method = bm.MirrorAscent(n_steps=1)
    assert clean(bm.optimise(POSTERIOR, method=method, starts=["nominal"]).summary())
    priors = {"p\x1b": bm.SymmetricPrior(1), "q": bm.SymmetricPrior(5)}
    found = bm.prior_sensitivity(BEST, COUNTS, task(), priors, n_draws=50, min_count=2)
    assert "p\\x1b" in clean(found.summary())
    for record in (POSTERIOR, evaluation, table, found):
        clean(repr(record))


@pytest.mark.parametrize(
    "call",
    [
        lambda: task(start=[0, 0, 1, 0]),
        lambda: task(start=f"A{TITLE}"),
        lambda: bm.fit(
            bm.Counts.from_arrays([2], [0], [0]), task(), prior=bm.SymmetricPrior()
        ),
        lambda: bm.fit(COUNTS, task(), prior=bm.SparsePrior(fallback="\x1b")),
        lambda: bm.evaluate(np.full((4, 2), 0.5), POSTERIOR.draws(50)),
        lambda: bm.restrict(np.full((4, 2), 0.5), POSTERIOR),
        lambda: bm.read_transitions(f"no{TITLE}.csv"),
        lambda: bm.storage.load(f"no\n{TITLE}"),
    ],
    ids=range(8),
)
def test_errors_and_warnings_are_one_clean_line(call: Callable[[], object]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", bm.BayesmdpWarning)
        with pytest.raises((bm.BayesmdpError, bm.BayesmdpWarning)) as caught:
            call()
    assert "\\x" in clean(str(caught.value), 1)


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(main, list(arguments), color=True)
    assert result.exit_code in (0, 1), result.stderr
    return result


def test_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    counted = zip(COUNTS.state, COUNTS.action, COUNTS.next_state, strict=True)
    log, place = f"log{TITLE}.jsonl", f"run{TITLE}"
    rows = [{"s": NAMES[s], "a": ACTIONS[a], "sp": NAMES[t]} for s, a, t in counted]
    Path(log).write_text("".join(json.dumps(row) + "\n" for row in rows))
    ends = [json.dumps(name).replace("\x7f", "\\u007f") for name in NAMES[2:]]
    Path("task.toml").write_text(
        f"discount = 0.9\nterminal = [{', '.join(ends)}]\n"
        f"[reward]\nstate = {{ {ends[0]} = 1.0 }}\n"
    )
    texts = [
        run("validate", log, "--min-count", "50"),
        run("fit", log, "--init", f"new{TITLE}.toml"),
        run("fit", log, "--task", "task.toml", "-o", place),
        run("info", place),
        run("evaluate", place, "nominal", "--draws", "50"),
        run("optimise", place, "--steps", "1", "--start", "nominal"),
        run("compare", place, "mle", "nominal", "--draws", "50"),
        run("report", place, "-o", f"page{TITLE}.html", "--draws", "50"),
    ]
    for result in texts:
        clean(result.stderr)
    clean("".join(x.stdout for x in texts))
    assert "\\x1b]0;owned\\x07" in texts[0].stdout
    record = json.loads(run("evaluate", place, "mle", "--draws", "50", "--json").stdout)
    assert sorted(x["state"] for x in record["states"]) == sorted(NAMES)  # as they are
