"""``bayesmdp fit`` and ``bayesmdp info RUN``, as a user would run them."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import bayesmdp as bm
from bayesmdp.cli import main

LOG = """patient,step,state,action,end
7,0,ward,wait,
7,1,icu,treat,home
8,0,ward,treat,
8,1,icu,treat,death
"""
TASK = """
discount = 0.99
terminal = ["home", "death"]
[reward]
state = { home = 1.0 }
"""
OUTCOME = ("--columns", "outcome=end")
# Priors that do not outweigh a few rows, which would be warned of.
LEARNT, SMALL = ("--prior", "hierarchical"), ("--concentration", "0.1")
GIVEN = ("ward.csv", "--task", "task.toml", "-o", "ward")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ward.csv").write_text(LOG)
    Path("task.toml").write_text(TASK)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def test_fit_saves_what_the_library_would_fit() -> None:
    result = run(
        "fit", *GIVEN, *OUTCOME, "--prior", "sparse", "--fallback", "death",
        "--concentration", "0.5", "--min-count", "1",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    data = bm.read_transitions("ward.csv", columns={"outcome": "end"})
    task = bm.Task(
        4,
        2,
        reward=[0, 1, 0, 0],
        discount=0.99,
        terminal=["home", "death"],
        state_labels=("death", "home", "icu", "ward"),
        action_labels=("treat", "wait"),
    )
    prior = bm.SparsePrior(0.5, "death")
    wanted = bm.fit(data, task, prior=prior, min_count=1)
    said = "Task: discount 0.99\nEpisodes begin evenly in 2 states"
    assert result.stdout == f"{wanted.summary()}\n{said}\nSaved in ward\n"
    loaded = bm.storage.load("ward")
    found = loaded.posterior
    assert np.array_equal(found.alpha, wanted.alpha)
    assert np.array_equal(found.available, wanted.available)
    assert found.prior == prior
    assert found.task.state_labels == task.state_labels
    assert loaded.config["source"] == {"files": ["ward.csv"], "labels": False}
    assert loaded.config["columns"]["outcome"] == "end"


def test_averages_have_no_episodes_that_begin() -> None:
    Path("line.csv").write_text("state,action,next_state,reward\n0,0,1,1\n1,0,0,2\n")
    Path("line.toml").write_text("criterion = 'average'\nreward.from_data = true\n")
    result = run("fit", "line.csv", "--task", "line.toml", "-o", "line")
    assert result.exit_code == 0, result.output
    assert "Episodes begin" not in result.stdout
    assert result.stdout.endswith("\nTask: average per step\nSaved in line\n")


def test_fit_warns_of_what_validate_finds() -> None:
    rows = "episode,step,state,action,next_state,reward,done\n"
    rows += "0,0,1,1,2,0,0\n0,1,2,2,3,1,1\n1,0,2,1,3,0,1\n1,0,2,1,3,0,1\n"
    Path("from1.csv").write_text(rows)
    result = run("fit", "from1.csv", "--discount", "0.9", "-o", "r")
    assert result.exit_code == 1
    assert "`bayesmdp validate` finds" in result.stderr
    assert "ids-from-1" in result.stderr
    assert "duplicate-rows" in result.stderr
    Path("from1.csv").unlink()


def test_init_writes_a_task_file_that_fit_takes() -> None:
    result = run("fit", "ward.csv", *OUTCOME, "--init", "new.toml")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "Wrote new.toml" in result.stdout
    result = run("fit", "ward.csv", *OUTCOME, "--task", "new.toml", "-o", "ward")
    assert result.exit_code == 1, result.output
    assert "every reward is 0" in result.stderr  # the template leaves that open
    task = bm.storage.load("ward").posterior.task
    assert task.terminal.tolist() == [0, 1]
    log = bm.read_transitions("ward.csv", columns={"outcome": "end"})
    share = log.starts().count / log.starts().count.sum()
    assert task.start[log.starts().state] == pytest.approx(share)
    again = run("fit", "ward.csv", *OUTCOME, "--init", "new.toml")
    assert again.exit_code == 2
    assert "`new.toml` is there already" in again.stderr
    early = run("fit", "no.csv", "--init", "new.toml")  # before the log is read
    assert "`new.toml` is there already" in early.stderr
    done = run("fit", "ward.csv", *OUTCOME, "--init", "new.toml", "--overwrite")
    assert done.exit_code == 0
    record = json.loads(
        run("fit", "ward.csv", *OUTCOME, "--init", "b.toml", "--json").stdout
    )
    assert record == {"schema_version": 1, "task": "b.toml", "n_rows": 4}


def test_ids_and_labels_on_the_command_line() -> None:
    Path("ids.csv").write_text("s,a,sp\n0,0,1\n1,0,2\n")
    Path("ids.toml").write_text(
        TASK.replace('"home", "death"', "2").replace("home", "2")
    )
    options = ("--task", "ids.toml", "--prior", "sparse", "--fallback", "2", *SMALL)
    assert run("fit", "ids.csv", *options, "-o", "a").exit_code == 0
    assert bm.storage.load("a").posterior.prior == bm.SparsePrior(0.1, 2)
    Path("codes.csv").write_text("s,a,sp\n10,5,20\n20,5,30\n")
    Path("codes.toml").write_text(TASK.replace('"home", "death"', '"30"'))
    Path("codes.toml").write_text(Path("codes.toml").read_text().replace("home", "30"))
    options = ("--task", "codes.toml", "--prior", "sparse", "--fallback", "30", *SMALL)
    result = run("fit", "codes.csv", *options, "--labels", "-o", "b")
    assert result.exit_code == 0, result.output
    task = bm.storage.load("b").posterior.task
    assert task.state_labels == ("10", "20", "30")
    assert task.terminal.tolist() == [2]


def test_several_files_are_one_log() -> None:
    header, *rows = LOG.splitlines(keepends=True)
    Path("one.csv").write_text(header + "".join(rows[:2]))
    Path("two.csv").write_text(header + "".join(rows[2:]))
    run("fit", *GIVEN, *OUTCOME)
    result = run(
        *("fit", "one.csv", "two.csv", "--task", "task.toml", "-o", "b"),
        *(*OUTCOME, *LEARNT),
    )
    assert result.exit_code == 0, result.output
    one, other = (bm.storage.load(x).posterior for x in ("ward", "b"))
    assert one.counts == other.counts


@pytest.mark.parametrize("names", ["ward icu home", "30 7 0"])
def test_without_a_task_file_the_data_say_the_rest(names: str) -> None:
    """Names that are numbers are names on the command line, too."""
    ward, icu, home = names.split()
    rows = f"{ward},1,{icu},0,0\n{icu},1,{home},5,1\n"
    Path("log.csv").write_text(f"s,a,sp,r,done\n{rows}")
    options = ("fit", "log.csv", "--labels", "--discount", "0.5", "-o")
    for name, more in (("a", ()), ("b", ("--terminal", home))):
        result = run(*options, name, *more, *LEARNT)
        assert result.exit_code == 0, result.output
        task = bm.storage.load(name).posterior.task
        assert [task.state_name(s) for s in task.terminal] == [home]
        at = [np.array([task.state(icu)]), np.array([0]), np.array([task.state(home)])]
        assert (task.discount, *task.transition_reward(*at)) == (0.5, 5)


def test_warnings_are_shown_and_exit_with_1() -> None:
    Path("gap.csv").write_text("id,t,s,a\n1,0,x,u\n1,1,y,u\n1,2,z,u\n2,0,y,u\n")
    Path("gap.toml").write_text("discount=1\nterminal=['z']\nreward.state.z = 1")
    result = run("fit", "gap.csv", "--task", "gap.toml", "-o", "gap")
    assert result.exit_code == 1
    assert result.stderr.startswith("bayesmdp: warning: Next states of `gap.csv`")
    assert "Saved in gap" in result.stdout
    assert run("info", "gap").exit_code == 0


def test_json_describes_the_run() -> None:
    result = run("fit", *GIVEN, *OUTCOME, "--json")
    record = json.loads(result.stdout)
    assert record["n_transitions"] == 4
    assert record["terminal"] == ["death", "home"]
    assert json.loads(run("info", "ward", "--json").stdout) == record


def test_info_describes_a_run() -> None:
    run("fit", *GIVEN, *OUTCOME)
    bm.storage.save_result("ward", "mine", {"value": 1})
    result = run("info", "ward")
    assert (result.exit_code, result.stderr) == (0, "")
    for said in (
        "Run in ward",
        "source: files ward.csv",
        "'patient' is the episode",
        f"bayesmdp {bm.__version__}",
        "prior: HierarchicalPrior(base='local', fallback=None)",
        "from 4 transitions",
        "results:\n    mine: a result of your own",
    ):
        assert said in result.stdout


def test_a_run_is_replaced_only_when_asked() -> None:
    assert run("fit", *GIVEN, *OUTCOME, *LEARNT).exit_code == 0
    result = run("fit", "no-such.csv", *GIVEN[1:], *OUTCOME)
    assert result.exit_code == 2
    assert "`ward` holds a run already" in result.stderr  # before anything is read
    assert run("fit", *GIVEN, *OUTCOME, *LEARNT, "--overwrite").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("fit",), "Missing argument 'FILE...'"),
        (("fit", "ward.csv"), "Say where to keep the run, -o DIRECTORY"),
        (("fit", *GIVEN, "--init", "x"), "or only --init FILE"),
        (("fit", *GIVEN[:3], "--init", "x"), "--init writes a task file"),
        (
            ("fit", "ward.csv", "-o", "x"),
            "Give --task FILE (see --init), or --discount",
        ),
        (("fit", *GIVEN, "--discount", "1"), "are for use without --task"),
        (("fit", *GIVEN, "--terminal", "x"), "are for use without --task"),
        (
            ("fit", *GIVEN, *OUTCOME, "--prior", "evidence", "--concentration", "1"),
            "chooses its own concentration",
        ),
        (("fit", *GIVEN, "--prior", "sparce"), "'sparce' is not one of"),
        (("fit", *GIVEN, "--min-count", "-1"), "'--min-count'"),
        (("fit", *GIVEN, "--columns", "outcome"), "not of the form ROLE=NAME"),
        (("fit", *GIVEN, *OUTCOME, *OUTCOME), "'outcome' is given twice"),
        (("fit", *GIVEN, "--columns", "outcom=end"), "did you mean 'outcome'?"),
        (("fit", *GIVEN, "--columns", "outcome=endd"), "did you mean 'end'?"),
        (("fit", "none.csv", *GIVEN[1:]), "there is no file `none.csv`"),
        (("fit", "ward.csv", "--task", "x", "-o", "y"), "`x` cannot be read"),
        (
            ("fit", *GIVEN, *OUTCOME, "--prior", "sparse", "--concentration", "0"),
            "`--concentration` must",
        ),
        (
            ("fit", *GIVEN, *OUTCOME, "--concentration", "1"),
            "leave the concentration out, or take the symmetric prior.",
        ),
        (
            ("fit", *GIVEN, *OUTCOME, "--prior", "sparse", "--fallback", "deth"),
            "`--fallback` 'deth' is not among the labels (did you mean 'death'?).",
        ),
        (("fit", *GIVEN[:-1], "no/such", *OUTCOME), "there is no directory `no`"),
        (("fit", *GIVEN[:-1], "ward.csv", *OUTCOME), "`ward.csv` is a file"),
        (("fit", *GIVEN[:-1], ".", *OUTCOME), "holds other files"),
        (("info", "none"), "There is no directory `none`"),
        (("info", "."), "is not a run"),
        (("info", "ward.csv"), "ward.csv"),
    ],
    ids=range(25),
)
def test_bad_input_exits_with_2_and_a_sentence(
    arguments: tuple[str, ...], said: str
) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.split())
    assert not Path("ward").exists()
    assert sorted(x.name for x in Path.cwd().iterdir()) == ["task.toml", "ward.csv"]


def test_remedies_for_pairs_never_visited_are_options_that_work() -> None:
    sparse = ("fit", *GIVEN, *OUTCOME, "--prior", "sparse", *SMALL)
    result = run(*sparse)
    assert result.exit_code == 2
    for said, options in (
        ("--fallback STATE", ("--fallback", "death")),
        ("--min-count 1", ("--min-count", "1")),
    ):
        assert said in result.stderr
        assert run(*sparse, *options, "--overwrite").exit_code == 0


def test_a_prior_that_outweighs_the_data_is_told_once() -> None:
    flat = ("--prior", "symmetric", "--concentration", "50")
    told = run("fit", *GIVEN, *OUTCOME, *flat)
    assert told.exit_code == 1
    said = [x for x in told.stderr.splitlines() if "dominated by the prior" in x]
    assert len(said) == 1
    assert "use --prior hierarchical" in said[0]
    assert said[0].endswith("or a smaller --concentration.")
    again = run("evaluate", "ward", "mle", "--draws", "16")
    assert "dominated" not in again.stderr
    assert "dominated" in run("info", "ward").stdout
    assert run("fit", *GIVEN, *OUTCOME, *LEARNT, "--overwrite").stderr == ""
    assert run("fit", *GIVEN, *LEARNT, *SMALL, "--overwrite").exit_code == 2


def test_a_policy_that_lost_actions_is_called_so_also_as_the_reference() -> None:
    Path("log.csv").write_text("s,a,sp,r,done\n0,0,1,0,0\n1,1,2,1,1\n")
    options = ("--discount", "0.9", "--min-count", "1", "-o", "few")
    assert run("fit", "log.csv", *options).exit_code in (0, 1)
    named = ("compare", "few", "always:0", "behaviour", "--reference", "always:0")
    result = run(*named, "--draws", "50", "--restrict", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["reference"] == "always:0, restricted"


def test_files_with_unavailable_actions_need_a_word() -> None:
    Path("log.csv").write_text("s,a,sp,r,done\n0,0,1,0,0\n1,1,2,1,1\n")
    options = ("--discount", "0.9", "--min-count", "1", "-o", "few")
    assert run("fit", "log.csv", *options).exit_code in (0, 1)
    Path("mine.csv").write_text("state,action\n0,1\n1,1\n")
    result = run("evaluate", "few", "mine.csv", "--draws", "50")
    assert result.exit_code == 2
    assert "unavailable pair: state 0, action 1; --restrict drops" in result.stderr
    result = run("evaluate", "few", "mine.csv", "--draws", "50", "--restrict")
    assert result.exit_code == 1
    assert "dropped probability in 1 of 2 states" in result.stderr
