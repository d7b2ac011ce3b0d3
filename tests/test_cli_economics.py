"""Several rewards on the command line: task file, --reward, cost-effectiveness."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import bayesmdp as bm
from bayesmdp.cli import main
from bayesmdp.errors import TaskError

LOG = "state,action,next_state\n" + "\n".join(
    f"{s},{a},{t}"
    for s, a, t, n in (
        *(("well", "care", "well", 12), ("well", "care", "ill", 4)),
        *(("well", "drug", "well", 14), ("well", "drug", "ill", 2)),
        *(("ill", "care", "ill", 6), ("ill", "care", "dead", 6)),
        *(("ill", "drug", "ill", 9), ("ill", "drug", "dead", 3)),
    )
    for _ in range(n)
)
TASK = """
terminal = ["dead"]
start = "well"
{more}
[reward.cost]
state_action.well = {{ care = 100.0, drug = 800.0 }}
state_action.ill = {{ care = 900.0, drug = 1600.0 }}
[reward.qaly]
state_action.well = {{ care = 1.0, drug = 1.0 }}
state_action.ill = {{ care = 0.5, drug = 0.5 }}
"""
TWO = ("always:care", "always:drug")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    here = tmp_path_factory.mktemp("costs")
    (here / "log.csv").write_text(LOG)
    timed = "discount = { cost = 0.94, qaly = 1.0 }\nhorizon = 20\ncycle = 'half'"
    for name, more in (("timed", timed), ("plain", "discount = 0.97")):
        (here / f"{name}.toml").write_text(TASK.format(more=more))
        said = ("fit", str(here / "log.csv"), "--prior", "symmetric", "--task")
        done = run(*said, str(here / f"{name}.toml"), "-o", str(here / name))
        assert done.exit_code in (0, 1), done.output
    return here


@pytest.fixture(autouse=True)
def _there(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(here)


def test_a_task_file_holds_several_rewards() -> None:
    task = bm.storage.load("timed").posterior.task
    assert task.reward_names == ("cost", "qaly")
    assert (task.horizon, task.cycle) == (20, "half")
    cost, qaly = task.parts.values()
    assert (cost.discount, qaly.discount) == (0.94, 1.0)
    well = task.state("well")
    assert cost.reward[well].tolist() == [100, 800]


@pytest.mark.parametrize(
    ("name", "said", "horizon"),
    [
        (
            "timed",
            "discounts by reward, 20 cycles, cycle 'half'; "
            "rewards cost (discount 0.94), qaly (discount 1)",
            20,
        ),
        ("plain", "discount 0.97; rewards cost, qaly", None),
    ],
)
def test_fit_and_info_say_discounts_horizon_and_rewards(
    name: str, said: str, horizon: int | None
) -> None:
    file = f"{name}.toml"
    done = run("fit", "log.csv", "--prior", "symmetric", "--task", file, "-o", "again")
    assert f"\nTask: {said}\n" in done.stdout
    assert f"\n  task: {said}\n" in run("info", "again").stdout
    record = json.loads(run("info", "again", "--json").stdout)
    assert (record["horizon"], record["rewards"]) == (horizon, ["cost", "qaly"])
    shutil.rmtree("again")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("care = 1.0,", "cure = 1.0,", "`reward.qaly.state_action.well` 'cure'"),
        ("[reward.qaly]", "[reward.qaly]\nfrom_data = true\n#", "must say one of"),
        ("discount = 0.97", "discount = { cots = 0.9 }", "cots.*did you mean 'cost'"),
        ("discount = 0.97", "discount = 0.9\nhorizon = 0", "`horizon` must be at"),
        ("discount = 0.97", "discount = 0.9\ncycle = 'hlaf'", "`cycle` must be one of"),
    ],
)
def test_a_wrong_task_file_is_refused(old: str, new: str, said: str) -> None:
    text = Path("plain.toml").read_text()
    Path("wrong.toml").write_text(text.replace(old, new, 1))
    with pytest.raises(TaskError, match=said):
        bm.storage.read_task("wrong.toml", bm.read_transitions("log.csv"))


def test_a_logged_reward_is_not_one_of_several() -> None:
    settings = {"discount": 0.9, "terminal": [], "n_states": 2, "n_actions": 1}
    reward = {"cost": {"state": {"0": 1.0}}, "qaly": {"from_data": True}}
    with pytest.raises(TaskError, match="cannot be one of several"):
        bm.storage.read_task({**settings, "reward": reward})


def test_the_command_says_what_the_library_says() -> None:
    asked = ("--draws", "300", "--seed", "3", "--threshold", "900", "--threshold", "0")
    done = run("cost-effectiveness", "timed", *TWO, *asked, "--json")
    assert done.exit_code == 0, done.output
    record = json.loads(done.stdout)
    told = run("cost-effectiveness", "timed", *TWO, *asked).stdout
    assert told.endswith(f"\nSaved in {record['result']}\n")
    posterior = bm.storage.load("timed").posterior
    policies = {x: bm.policies.named_policy(x, posterior) for x in TWO}
    draws = posterior.draws(300, 3)
    found = bm.cost_effectiveness(policies, draws, thresholds=[0, 900])
    assert {key: record[key] for key in found.to_dict()} == found.to_dict()
    kept = bm.storage.load_result("timed", "cost_effectiveness")
    assert kept.to_dict() == found.to_dict()
    assert "CostEffectiveness(2 policies" in run("info", "timed").stdout


def test_a_policy_may_be_the_best_for_net_benefit() -> None:
    refused = run("cost-effectiveness", "timed", TWO[0], "nominal")
    assert refused.exit_code == 2
    assert "--reward qaly" in refused.stderr
    benefit = ("--reward", "qaly=9000", "--reward", "cost=-1", "--draws", "64")
    done = run("cost-effectiveness", "timed", TWO[0], "nominal", *benefit, "--json")
    assert done.exit_code == 0, done.output
    posterior = bm.storage.load("timed").posterior
    best = bm.policies.nominal(posterior.with_reward({"qaly": 9000, "cost": -1}))
    both = bm.evaluate(best, posterior.draws(64)).rewards
    assert both is not None
    rows = {x["name"]: x for x in json.loads(done.stdout)["table"]}
    mean = both["qaly"].start_values.mean()
    assert rows["nominal"]["effect"] == pytest.approx(mean)


def test_costs_and_effects_are_those_of_evaluate() -> None:
    posterior = bm.storage.load("timed").posterior
    policies = {x: bm.policies.named_policy(x, posterior) for x in TWO}
    draws = posterior.draws(400, 1)
    ce = bm.cost_effectiveness(policies, draws)
    for name, policy in policies.items():
        both = bm.evaluate(policy, draws).rewards
        assert both is not None
        assert np.array_equal(ce.plane[name][0], both["cost"].start_values)
        assert np.array_equal(ce.plane[name][1], both["qaly"].start_values)
    k = 5_000
    benefit = bm.compare(policies, draws, reward={"qaly": k, "cost": -1.0})
    rows = {row.name: row for row in benefit.rows}
    means = {row.name: k * row.effect - row.cost for row in ce.table}
    assert ce.best[1] == max(means, key=lambda x: means[x])
    for name, mean in means.items():
        near = pytest.approx(mean, abs=5 * rows[name].epistemic_sd / 20)
        assert rows[name].value == near
    (row,) = (x for x in benefit.rows if x.name == TWO[1])
    assert ce.ceac[TWO[1]][1] == pytest.approx(row.probability_better)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ((TWO[0],), "name two policies or more"),
        ((*TWO, "--effect", "qualy"), "did you mean 'qaly'"),
        ((*TWO, "--cost", "qaly"), "`--cost` and `--effect` must be two rewards"),
        ((*TWO, "--threshold", "-5"), "`--threshold` must be 0 or more"),
        ((), "Missing argument 'POLICY...'"),
    ],
)
def test_bad_input_gets_a_sentence(more: tuple[str, ...], said: str) -> None:
    done = run("cost-effectiveness", "timed", *more)
    assert done.exit_code == 2
    assert said in done.stderr
    assert "Traceback" not in done.output


def test_a_task_of_one_reward_has_no_costs() -> None:
    world = bm.worlds.synthetic(0, 2, 2)
    posterior = bm.fit(world.sample(20, seed=0), world.task)
    policies = {"a": [0] * posterior.task.n_states, "b": [1] * posterior.task.n_states}
    with pytest.raises(bm.BayesmdpError, match="the task has one unnamed reward"):
        bm.cost_effectiveness(policies, posterior)
    belief = bm.storage.load("timed").posterior
    with pytest.raises(bm.BayesmdpError, match=r"`policies\['b'\]`"):
        bm.cost_effectiveness({"a": [0, 0, 0], "b": [0, 7, 0]}, belief)


def test_other_commands_take_one_reward_or_a_sum() -> None:
    for command in (("compare", *TWO), ("optimise", "--overwrite")):
        done = run(command[0], "timed", *command[1:])
        assert done.exit_code == 2
        assert "--reward qaly" in done.stderr
    benefit = ("--reward", "qaly=3000", "--reward", "cost=-1")
    done = run("compare", "timed", *TWO, *benefit, "--draws", "64", "--json")
    assert done.exit_code == 0, done.output
    posterior = bm.storage.load("timed").posterior
    policies = {x: bm.policies.named_policy(x, posterior) for x in TWO}
    reward = {"qaly": 3000.0, "cost": -1.0}
    table = bm.compare(policies, posterior.draws(64, 0), reward=reward)
    assert json.loads(done.stdout)["rows"] == table.to_dict()["rows"]
    one = run("evaluate", "timed", TWO[0], "--reward", "qaly", "--draws", "64")
    assert "discount 1" in one.stdout
    worth = run("information", "plain", *TWO, *benefit, "--visits", "10", "--json")
    assert worth.exit_code == 0, worth.output
    plain = bm.storage.load("plain").posterior
    policies = {x: bm.policies.named_policy(x, plain) for x in TWO}
    info = bm.value_of_information(plain, policies, (10,), reward=reward)
    assert json.loads(worth.stdout)["evpi"] == info.evpi
    assert json.loads(worth.stdout)["sampling"] is None
    asked = ("--population", "5000", "--cost", "2.5", "--setup", "40")
    worth = run("information", "plain", *TWO, *benefit, "--visits", "10", *asked)
    assert worth.exit_code == 0, worth.output
    best = info.enbs(5000, 2.5, 40)[0].max()
    studies = info.ranked_studies(5000, 2.5, 40)
    assert studies[0]["enbs"] == best == 5000 * studies[0]["evsi"] - 40 - 25
    assert f"worth {round(5000 * info.evpi)}"[:8] in worth.stdout
    said = "study  visits" if best > 0 else "No study of one pair is worth"
    assert said in worth.stdout
    alone = run("information", "plain", *TWO, *benefit, "--cost", "2.5")
    assert alone.exit_code == 2
    assert "need `--population`" in alone.stderr
    wrong = run("evaluate", "timed", TWO[0], "--reward", "qaly=many")
    assert wrong.exit_code == 2
    assert "NAME=WEIGHT" in wrong.stderr
    twice = ("--reward", "qaly=1", "--reward", "cost=-1", "--reward", "qaly=2")
    wrong = run("evaluate", "timed", TWO[0], *twice)
    assert wrong.exit_code == 2
    assert "'qaly' is given twice." in wrong.stderr
    for policy in ("nominal", TWO[0]):  # neither is to blame
        for more in ([], ["--reward", "zero"]):
            wrong = run("evaluate", "plain", policy, *more)
            assert "POLICY" not in wrong.stderr


def test_the_report_shows_the_last_analysis() -> None:
    done = run("cost-effectiveness", "plain", *TWO, "--draws", "64")
    assert done.exit_code == 0, done.output
    benefit = ("--reward", "qaly=3000", "--reward", "cost=-1")
    done = run("report", "plain", *benefit, "--draws", "64", "-o", "page.html")
    assert done.exit_code == 0, done.output
    section = json.loads(Path("page.json").read_text())["economics"]
    kept = bm.storage.load_result("plain", "cost_effectiveness")
    assert [x["name"] for x in section["rows"]] == [x.name for x in kept.table]


def test_a_report_leaves_out_what_an_earlier_optimised_policy_cost() -> None:
    """The policy is exchanged, as `optimise --overwrite` does; numbers would be old."""
    benefit = ("--reward", "qaly=3000", "--reward", "cost=-1")
    assert run("optimise", "plain", *benefit, "--overwrite").exit_code == 0
    refused = run("optimise", "plain", "--reward", "qaly", "--resume")
    assert refused.exit_code == 2
    assert "a policy for PosteriorMean() of 3000 qaly - cost: " in refused.stderr
    asked = (TWO[0], "optimised", "--threshold", "3000", "--draws", "64")
    assert run("cost-effectiveness", "plain", *asked).exit_code == 0
    visits = (TWO[0], "optimised", *benefit, "--visits", "10", "--patients", "10")
    assert run("information", "plain", *visits).exit_code == 0
    page = ("report", "plain", *benefit, "--draws", "64", "-o", "kept.html")

    def shown() -> tuple[str, bool, bool]:
        done = run(*page)
        assert done.exit_code == 0, done.output
        data = json.loads(Path("kept.json").read_text())
        left_out = "left_out" in data["information"]
        return done.stderr, data["economics"] is not None, not left_out

    said, economics, information = shown()
    assert economics
    assert information
    assert "earlier optimised policy" not in said
    kept = bm.storage.load_result("plain", "optimised", bm.Optimisation)
    near = np.nextafter(kept.policy, 0)  # as where rows are divided by sums near 1
    bm.storage.save_result(
        "plain", "optimised", replace(kept, policy=near), overwrite=True
    )
    said, economics, information = shown()
    assert economics
    assert information
    assert "as it is now" not in said
    other = np.roll(kept.policy, 1, axis=1)
    bm.storage.save_result(
        "plain", "optimised", replace(kept, policy=other), overwrite=True
    )
    said, economics, information = shown()
    assert not economics
    assert not information
    again = "what `cost-effectiveness` found is of an earlier optimised policy; it is "
    assert f"{again}left out; to show it, give that command again" in said
    assert f"bayesmdp information plain {TWO[0]} optimised --reward=qaly=3000" in said
    assert run("cost-effectiveness", "plain", *asked).exit_code == 0
    assert run("information", "plain", *benefit, "--visits", "10").exit_code == 0
    said, economics, information = shown()  # information found policies for itself
    assert economics
    assert information
    assert "earlier optimised policy" not in said
    Path("plain/results/optimised.json").unlink()
    for name in ("cost_effectiveness", "information", "comparison"):
        Path(f"plain/results/{name}.json").unlink()


def test_a_report_does_not_show_one_reward_as_another() -> None:
    done = run("compare", "plain", *TWO, "--reward", "cost", "--draws", "64")
    assert done.exit_code == 0, done.output
    done = run("report", "plain", "--reward", "qaly", "--draws", "64", "-o", "q.html")
    assert done.exit_code in (0, 1), done.output
    assert "is of another reward" in done.stderr
    kept = bm.storage.load_result("plain", "comparison", bm.Comparison)
    assert {x.task.chosen for x in kept.evaluations.values()} == {"qaly"}
    posterior = bm.storage.load("plain").posterior
    policies = {x: bm.policies.named_policy(x, posterior) for x in TWO}
    costs = bm.compare(policies, posterior.draws(64, 0), reward="cost")
    with pytest.raises(bm.BayesmdpError, match="another `reward`"):
        bm.report(posterior.with_reward("qaly"), costs)


@pytest.mark.parametrize("name", ["check", "compare-priors"])
def test_a_horizon_is_refused_before_a_reward_is_asked_for(name: str) -> None:
    head, *rows = LOG.splitlines()
    rows = [f"{i},0,{row}" for i, row in enumerate(rows)]
    Path("patients.csv").write_text("\n".join([f"episode,step,{head}", *rows]))
    refused = run(name, "timed", "patients.csv")
    assert refused.exit_code == 2
    assert "task without `horizon` and `cycle`." in refused.stderr


@pytest.mark.parametrize(
    "command",
    ["check", "negative-control", "cross-fit", "off-policy", "compare-priors"],
)
def test_commands_on_a_log_take_a_reward(command: str) -> None:
    short = {"check": ("--draws", "8", "--permutations", "9")}
    short["negative-control"] = ("--permutations", "2")
    more = short.get(command, ())
    head, *rows = LOG.splitlines()
    rows = [f"{i},0,{row}" for i, row in enumerate(rows)]
    Path("patients.csv").write_text("\n".join([f"episode,step,{head}", *rows]))
    refused = run(command, "plain", "patients.csv", *more)
    assert refused.exit_code == 2
    assert "--reward qaly" in refused.stderr
    done = run(command, "plain", "patients.csv", "--reward", "qaly", *more)
    assert done.exit_code in (0, 1), done.output
    name = command.replace("-", "_")
    for reward in ("cost", "qaly"):
        page = ("-o", "page.html", "--draws", "16", "--reward", reward)
        done = run("report", "plain", *page)
        assert done.exit_code in (0, 1), done.output
        other = reward == "cost" and name != "compare_priors"  # that has no values
        assert (f"what `{command}` found is of another reward" in done.stderr) == other
        checks = json.loads(Path("page.json").read_text())["summary"]["checks"]
        said = {x["name"]: x["text"] for x in checks}
        assert (said.get(name) == "Not run.") == other


def test_prior_sensitivity_takes_a_reward() -> None:
    asked = ("prior-sensitivity", "plain", TWO[0], "--draws", "32")
    assert "--reward qaly" in run(*asked).stderr
    done = run(*asked, "--reward", "qaly", "--prior", "symmetric")
    assert done.exit_code in (0, 1), done.output
