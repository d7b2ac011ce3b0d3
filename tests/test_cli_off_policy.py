"""``bayesmdp off-policy`` says what the library says, and keeps it beside the run."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from quick_search import make_quick

import bayesmdp as bm
from bayesmdp._typing import FloatArray
from bayesmdp.cli import main
from bayesmdp.evaluation import OffPolicy
from studies.off_policy_problems import graph


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of 600 episodes, and a run that was fitted from it."""
    here = tmp_path_factory.mktemp("off_policy")
    made = graph()
    rows = bm.model.logged_episodes(made.log(0, n_episodes=600), made.task)
    columns = (rows.episode, rows.step, rows.state, rows.action, rows.next_state)
    lines = [
        ",".join(str(x) for x in (*row, pay))
        for *row, pay in zip(*columns, rows.reward, strict=True)
    ]
    head = "episode,step,state,action,next_state,reward"
    (here / "log.csv").write_text("\n".join([head, *lines]))
    (here / "rows.csv").write_text(
        "\n".join(x.split(",", 2)[2] for x in [head, *lines])
    )
    for log in ("log", "rows"):
        call = ("fit", str(here / f"{log}.csv"), "--prior", "symmetric")
        more = ("--discount", "0.99", "--terminal", "7", "--terminal", "8")
        done = run(*call, *more, "-o", str(here / log[:3]))
        assert done.exit_code in (0, 1), done.output
    (here / "up.csv").write_text(
        "state,action\n" + "".join(f"{s},0\n" for s in range(7))
    )
    return here


@pytest.fixture(autouse=True)
def _there(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(here)


def kept() -> dict[str, object]:
    found: OffPolicy = bm.storage.load_result("log", "off_policy", OffPolicy)
    return found.to_dict()


def test_a_policy_of_the_log_is_chosen_and_judged_in_folds() -> None:
    posterior = bm.storage.load("log").posterior

    def choose(counts: bm.Counts, task: bm.Task) -> FloatArray:
        return bm.policies.nominal(bm.fit(counts, task, prior=posterior.prior))

    log = bm.read_transitions("log.csv")
    wanted = bm.off_policy(choose, log, posterior.task, seed=3, name="nominal")
    told = run("off-policy", "log", "log.csv", "--seed", "3")
    assert (told.exit_code, told.stderr) == (0, "")
    assert told.stdout == wanted.summary() + "\n"
    assert "of nominal from 600 episodes, chosen and judged in 2 folds" in told.stdout
    assert kept() == wanted.to_dict()
    found = bm.storage.load_result("log", "off_policy")
    assert found.summary() == wanted.summary()
    record = json.loads(run("off-policy", "log", "log.csv", "--json").stdout)
    assert (record["run"], record["n_folds"], record["seed"]) == ("log", 2, 0)


def test_a_policy_in_a_file_is_judged_as_it_is() -> None:
    posterior, log = bm.storage.load("log").posterior, bm.read_transitions("log.csv")
    wanted = bm.off_policy([0] * 9, log, posterior.task, name="up")
    told = run("off-policy", "log", "log.csv", "--policy", "up.csv", "--folds", "5")
    assert told.stdout == wanted.summary() + "\n"
    behaviour = run("off-policy", "log", "log.csv", "--policy", "behaviour", "--json")
    found = json.loads(behaviour.stdout)
    assert found["n_folds"] == 0
    assert found["estimates"]["WIS"] == pytest.approx(found["observed_value"])


def test_on_the_log_that_chose_it_an_estimate_is_called_optimistic() -> None:
    told = run("off-policy", "log", "log.csv", "--policy", "mle", "--folds", "0")
    assert told.exit_code == 0
    assert "these estimates are optimistic; --folds 2" in told.stdout
    assert "folds" not in told.stdout.splitlines()[0]
    assert kept()["n_folds"] == 0


def test_an_optimised_policy_is_searched_for_in_each_fold(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make_quick(monkeypatch)
    told = run("off-policy", "log", "log.csv", "--policy", "optimised")
    assert told.exit_code == 0, told.output
    assert "of optimised from 600 episodes, chosen and judged in 2" in told.stdout
    done = run("optimise", "log", "--steps", "1", "--start", "nominal")
    assert done.exit_code in (0, 1), done.output
    again = run("off-policy", "log", "log.csv")
    assert again.stdout == told.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("log", "rows.csv"), "when the log is read, --columns episode=NAME."),
        (("log", "log.csv", "--policy", "nobody"), "no policy 'nobody'"),
        (("log", "log.csv", "--folds", "1"), "`n_folds` must be at least 2"),
        (("row", "other.csv"), "does not hold the transitions that `row` was"),
    ],
)
def test_refusals_are_one_sentence(arguments: tuple[str, ...], said: str) -> None:
    lines = Path("log.csv").read_text().splitlines()
    Path("other.csv").write_text("\n".join(lines[:-1]))
    told = run("off-policy", *arguments)
    assert told.exit_code == 2
    assert said in told.stderr
    assert len(told.stderr.splitlines()) == 1
