"""``evaluate``, ``optimise``, ``compare``, ``report`` say what the library says."""

import json
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

import bayesmdp as bm
from bayesmdp.cli import main

LOG = """patient,step,state,action,next_state
1,0,ward,wait,icu
1,1,icu,treat,ward
1,2,ward,treat,home
2,0,ward,wait,ward
2,1,ward,treat,icu
2,2,icu,wait,death
3,0,icu,treat,home
4,0,ward,treat,home
5,0,ward,wait,home
"""
TASK = """discount = 0.9
terminal = ["home", "death"]
[reward]
state = { home = 1.0 }
"""
FEW = ("--draws", "200", "--seed", "3")
LEARNT = ("--prior", "hierarchical")
QUICK = ("--steps", "2", "--start", "nominal", "--start", "mle")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run, and the same with an optimised policy."""
    here = tmp_path_factory.mktemp("analysis")
    (here / "ward.csv").write_text(LOG)
    (here / "other.csv").write_text(LOG + "6,0,ward,wait,home\n")
    (here / "task.toml").write_text(TASK)
    files = (str(here / "ward.csv"), "--task", str(here / "task.toml"))
    prior = ("--prior", "sparse", "--fallback", "death", "--concentration", "0.1")
    done = run("fit", *files, *prior, "--min-count", "1", "-o", str(here / "ward"))
    assert done.exit_code == 0
    shutil.copytree(here / "ward", here / "best")
    done = run("optimise", str(here / "best"), *QUICK)
    assert done.exit_code in (0, 1), done.output
    return here


@pytest.fixture(autouse=True)
def _here(fitted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(fitted, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")


def test_evaluate_says_what_the_library_says() -> None:
    result = run("evaluate", "ward", "nominal", *FEW, "--states", "1")
    posterior = bm.storage.load("ward").posterior
    wanted = bm.evaluate(bm.policies.nominal(posterior), posterior.draws(200, 3))
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == wanted.summary(1) + "\n"
    record = json.loads(run("evaluate", "ward", "nominal", *FEW, "--json").stdout)
    assert record.pop("schema_version") == 1
    assert (record.pop("run"), record.pop("policy")) == ("ward", "nominal")
    assert record == wanted.to_dict()
    assert [x["state"] for x in record["states"]] == ["death", "home", "icu", "ward"]


def test_a_policy_of_one_s_own_is_evaluated() -> None:
    Path("mine.csv").write_text("state,action\nward,treat\nicu,treat\n")
    record = json.loads(run("evaluate", "ward", "mine.csv", *FEW, "--json").stdout)
    posterior = bm.storage.load("ward").posterior
    wanted = bm.evaluate([0, 0, 0, 0], posterior.draws(200, 3))
    assert record["policy"] == "mine"
    assert record["start_value"] == wanted.start_value


def test_a_tolerance_that_is_not_met_is_a_warning() -> None:
    result = run("evaluate", "ward", "mle", *FEW, "--tolerance", "1e-12")
    assert result.exit_code == 1
    assert "bayesmdp: warning: `tolerance` 1e-12 was not reached" in result.stderr
    assert "from the start" in result.stdout


def test_optimise_keeps_what_the_library_finds() -> None:
    result = run("optimise", "ward", *QUICK, "--policy-out", "p.csv", "--seed", "2")
    posterior = bm.storage.load("ward").posterior
    method = bm.MirrorAscent(n_steps=2)
    wanted = bm.optimise(posterior, method=method, starts=["nominal", "mle"], seed=2)
    assert result.exit_code == int(not wanted.converged)
    kept = bm.storage.load_result("ward", "optimised")
    assert np.array_equal(kept.policy, wanted.policy)
    assert (kept.start_value, kept.seed) == (wanted.start_value, 2)
    assert "Expected value " in result.stdout
    assert result.stdout.endswith("Saved in ward/results/optimised.json\n")
    read = bm.storage.read_policy("p.csv", posterior)
    assert np.array_equal(read, wanted.policy)


def test_a_policy_that_is_kept_is_replaced_only_when_asked() -> None:
    result = run("optimise", "best", *QUICK)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "already: --resume continues from it, --overwrite" in result.stderr
    before = bm.storage.load_result("best", "optimised")
    refused = run("optimise", "best", "--resume", "--objective", "cvar:0.5").stderr
    assert "best keeps a policy for PosteriorMean(): --resume continues" in refused
    assert run("optimise", "best", "--resume", "--steps", "1").exit_code in (0, 1)
    resumed = bm.storage.load_result("best", "optimised")
    assert list(resumed.starts) == ["resumed"]
    assert resumed.draws_used > before.draws_used
    assert run("optimise", "best", "--overwrite", *QUICK).exit_code in (0, 1)
    assert list(bm.storage.load_result("best", "optimised").starts) == [
        "nominal",
        "mle",
    ]


def test_ctrl_c_keeps_the_best_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal in a process of its own: tests/integration."""
    from bayesmdp.optimisation._search import Search

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Search, "climb", interrupted)
        result = run("optimise", "ward", *QUICK)
    assert result.exit_code == 130, result.output
    assert "interrupted; the best so far is kept, and `--resume`" in result.stderr
    assert bm.storage.load_result("ward", "optimised").interrupted
    assert run("optimise", "ward", "--resume", "--steps", "2").exit_code in (0, 1)
    assert not bm.storage.load_result("ward", "optimised").interrupted


def test_ctrl_c_before_the_first_policy_says_that_nothing_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from bayesmdp.optimisation import _search

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setitem(_search._MAKERS, "nominal", interrupted)
    result = run("optimise", "ward", "--start", "nominal")
    assert (result.exit_code, result.stdout) == (130, "")
    assert result.stderr == "bayesmdp: interrupted; nothing of this search is kept.\n"
    with pytest.raises(bm.errors.BayesmdpError):
        bm.storage.load_result("ward", "optimised")


def test_a_search_without_an_end_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    import dataclasses

    from bayesmdp.optimisation import Outcome, Stage

    found = bm.storage.load_result("best", "optimised")
    stage, outcome = Stage.CLIMBED, Outcome.STEPS
    unfinished = dataclasses.replace(found, chosen_stage=stage, outcome=outcome)
    monkeypatch.setattr(bm, "optimise", lambda *_, **__: unfinished)
    result = run("optimise", "ward")
    assert result.exit_code == 1
    assert result.stderr.startswith("bayesmdp: warning: all steps taken before the ")
    assert result.stderr.endswith("; --resume continues, or use more --effort\n")


def test_compare_sets_policies_side_by_side_and_keeps_the_table() -> None:
    names = ("mle", "nominal", "optimised", "behaviour")
    result = run("compare", "best", *names, "--reference", "behaviour", *FEW)
    assert (result.exit_code, result.stderr) == (0, "")
    posterior = bm.storage.load("best").posterior
    policies = {name: getattr(bm.policies, name)(posterior) for name in names[:2]}
    policies["optimised"] = bm.storage.load_result("best", "optimised").policy
    policies["behaviour"] = bm.policies.behaviour(posterior)
    draws = posterior.draws(200, 3)
    wanted = bm.compare(policies, draws, reference="behaviour")
    assert result.stdout == f"{wanted}\nSaved in best/results/comparison.json\n"
    assert bm.storage.load_result("best", "comparison").rows == wanted.rows
    again = run("compare", "best", "mle", "uniform", *FEW, "--min-count", "2", "--json")
    record = json.loads(again.stdout)
    assert (record["reference"], record["min_count"], record["seed"]) == ("mle", 2, 3)
    assert (
        record["rows"] == bm.storage.load_result("best", "comparison").to_dict()["rows"]
    )


class _Pages:
    """Stands in for `bm.report`, and keeps what it was called with."""

    def __init__(self) -> None:
        self.arguments: dict[str, Any] = {}

    def __call__(self, posterior: Any, comparison: Any, **rest: Any) -> Any:
        self.arguments = {"posterior": posterior, "comparison": comparison, **rest}
        data = '{"schema_version": 1}'
        return SimpleNamespace(save=lambda path: Path(path).write_text(data))


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> _Pages:
    made = _Pages()
    monkeypatch.setattr(bm, "report", made, raising=False)
    return made


def test_report_shows_what_is_kept(pages: _Pages) -> None:
    run("compare", "best", "mle", "optimised", *FEW)
    result = run("report", "best", "-o", "page.html")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == "Wrote page.html and page.json\n"
    assert Path("page.html").exists()
    assert Path("page.json").exists()
    given = pages.arguments
    assert set(given["comparison"].evaluations) == {"mle", "optimised"}
    best = bm.storage.load_result("best", "optimised")
    assert given["optimisation"].start_value == best.start_value
    codes = [x.code for x in bm.validate("ward.csv")]
    assert [x.code for x in given["findings"]] == codes
    assert given["evidence"].n_transitions == 9
    assert given["prior_sensitivity"] is None


def test_report_makes_what_is_missing_and_says_so(pages: _Pages) -> None:
    result = run("report", "ward", "-o", "page.html", *FEW, "--prior-sensitivity")
    assert result.exit_code == 0, result.output
    assert result.stderr.startswith("bayesmdp: no comparison was kept; computing one")
    assert list(pages.arguments["comparison"].evaluations) == [
        "behaviour",
        "mle",
        "nominal",
    ]
    assert pages.arguments["optimisation"] is None
    tried = pages.arguments["prior_sensitivity"]
    assert tried.names == ("as fitted", "hierarchical", "symmetric", "scaled")
    best = pages.arguments["comparison"].rows[0].name
    policy = pages.arguments["comparison"].evaluations[best].policy
    assert np.array_equal(tried.policy, policy)
    result = run("report", "ward", "-o", "page.html", "--quiet", "--json")
    assert result.stderr == ""
    assert json.loads(result.stdout)["comparison_made"] is False
    bad = run("report", "ward", "-o", "page.pdf")
    assert bad.exit_code == 2
    assert "`page.pdf` must end in .html" in bad.stderr


def test_report_compares_again_where_the_optimised_policy_is_another(
    pages: _Pages,
) -> None:
    def report() -> tuple[Any, str]:
        told = run("report", "best", "-o", "page.html", "--draws", "32")
        assert told.exit_code == 0, told.output
        return pages.arguments["comparison"], told.stderr

    made, why = report()
    assert "no comparison was kept; computing one for" in why
    assert list(made.evaluations) == ["behaviour", "mle", "nominal", "optimised"]
    assert (made.reference, made.evaluations["mle"].n_draws) == ("behaviour", 32)
    again, why = report()
    assert why == ""
    assert again.rows == made.rows
    run("compare", "best", "uniform", "mle", "--min-count", "3", *FEW)
    made, why = report()
    assert "lacks the optimised policy as it is now" in why
    assert list(made.evaluations) == ["uniform", "mle", "optimised"]
    assert (made.reference, made.min_count) == ("uniform", 3)
    best = bm.storage.load_result("best", "optimised", bm.Optimisation)
    other = bm.policies.behaviour(bm.storage.load("best").posterior)
    changed = replace(best, policy=other)
    bm.storage.save_result("best", "optimised", changed, overwrite=True)
    made, why = report()
    assert "as it is now" in why
    assert np.array_equal(made.evaluations["optimised"].policy, other)
    assert report()[1] == ""


def test_report_replaces_its_own_data_and_no_others() -> None:
    Path("page.json").write_text('{"state": 0, "action": 0}\n')  # a log, say
    bad = run("report", "ward", "-o", "page.html", *FEW)
    assert (bad.exit_code, bad.stdout) == (2, "")
    assert "`page.json`, where the data of `page.html` would go, is som" in bad.stderr
    assert not Path("page.html").exists()
    Path("page.json").unlink()
    for _ in range(2):
        assert run("report", "ward", "-o", "page.html", *FEW).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("evaluate",), "Missing argument 'RUN'"),
        (("evaluate", "ward"), "Missing argument 'POLICY'"),
        (("evaluate", "none", "mle"), "There is no directory `none`"),
        (("evaluate", "ward.csv", "mle"), "ward.csv"),
        (("evaluate", "ward", "mel"), "no policy 'mel' (did you mean 'mle'?)"),
        (("evaluate", "ward", "none.csv"), "`none.csv` cannot be read: No such file"),
        (("evaluate", "ward", "optimised"), "has no optimised policy yet: `bayesmdp o"),
        (("evaluate", "ward", "mle", "--draws", "1"), "'--draws'"),
        (("evaluate", "ward", "mle", "--drwas", "9"), "--draws"),
        (("evaluate", "ward", "mle", "--tolerance", "0"), "`--tolerance` must be in"),
        (("compare", "ward", "mle"), "`POLICY` has 'mle' alone: name two"),
        (("evaluate", "ward", "always:x"), "`POLICY` 'always:x': `action` 'x' is"),
        (("compare", "ward", "mle", "mle"), "two policies 'mle'"),
        (
            ("compare", "ward", "mle", "nominal", "--reference", "mel"),
            "'mel' is not among the policies: mle, nominal (did you mean 'mle'?)",
        ),
        (("optimise", "ward", "--start", "x"), "`--start` has 'x', which is none"),
        (("optimise", "ward", "--start", "mel"), "has 'mel' (did you mean 'mle'?), wh"),
        (("optimise", "ward", "--resume"), "has no result 'optimised'"),
        (("optimise", "ward", "--resume", "--start", "mle"), "leave out --start"),
        (("optimise", "best", "--resume", "--overwrite"), "leave out --overwrite"),
        (("report", "none"), "There is no directory `none`"),
        (("optimize", "ward"), "No such command 'optimize' (did you mean 'optimise'?)"),
        (("prior-sensitivity", "ward", "mle", "--baseline", "nobody"), "no policy"),
        (("improve", "ward", "--baseline", "always:x"), "`--baseline` 'always:x': `ac"),
        (("prior-sensitivity", "ward", "mle", "--fallback", "moon"), "moon"),
        (("compare-priors", "ward", "ward.csv", "--folds", "40"), "40"),
        (("compare-priors", "ward", "other.csv"), "`other.csv` does not hold the t"),
    ],
    ids=range(26),
)
def test_bad_input_is_a_sentence_and_exit_code_2(
    arguments: tuple[str, ...], said: str
) -> None:
    before = sorted(Path.cwd().rglob("*"))
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in " ".join(result.stderr.split())
    assert not any(x in result.stderr for x in ("Traceback", "in a dict"))
    assert sorted(Path.cwd().rglob("*")) == before


def test_a_damaged_result_is_told() -> None:
    kept = Path("best/results/optimised.json")
    kept.write_bytes(b"cut short")
    assert "optimised: damaged; recompute it" in run("info", "best").stdout
    result = run("evaluate", "best", "optimised", *FEW)
    assert result.exit_code == 2
    assert f"`{kept}` is damaged" in result.stderr


def test_a_result_of_another_run_is_not_taken() -> None:
    shutil.copytree("best/results", "elsewhere")
    again = ("fit", "ward.csv", "--task", "task.toml", "-o", "best", "--overwrite")
    assert run(*again, *LEARNT).exit_code == 0
    shutil.copytree("elsewhere", "best/results", dirs_exist_ok=True)
    result = run("compare", "best", "mle", "optimised", *FEW)
    assert result.exit_code == 2
    assert "has no optimised policy yet" in result.stderr


def test_a_place_that_cannot_be_written_is_told_before_the_search() -> None:
    Path("ward/results").write_text("a file where a folder should be")
    result = run("optimise", "ward")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "`ward/results` cannot be written" in result.stderr
    before = Path("best/results/optimised.json").read_bytes()
    bad = run("optimise", "best", "--overwrite", *QUICK, "--policy-out", "no/p.csv")
    assert bad.exit_code == 2
    assert "`no/p.csv` cannot be written: there is no directory `no`;" in bad.stderr
    assert Path("best/results/optimised.json").read_bytes() == before


@pytest.mark.parametrize(
    "command", [("compare", "ward", "mle", "nominal"), ("report", "ward")]
)
def test_a_run_that_takes_no_comparison_is_told_before_one_is_made(
    command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    def computed(*_: object, **__: object) -> None:
        raise AssertionError("it was computed")

    monkeypatch.setattr(bm.Posterior, "draws", computed)
    Path("ward/results").write_text("a file where a folder should be")
    result = run(*command, *FEW)
    assert (result.exit_code, result.stdout) == (2, ""), result.stderr
    assert "`ward/results` cannot be written" in result.stderr
    assert not Path("report.html").exists()


def test_fit_s_warnings_are_said_again_by_info() -> None:
    Path("dull.toml").write_text(TASK.replace("1.0", "0.0"))
    result = run("fit", "ward.csv", "--task", "dull.toml", "-o", "dull", *LEARNT)
    assert result.exit_code == 1
    assert "warning: every reward is 0" in result.stderr
    told = run("info", "dull")
    assert told.exit_code == 0  # the run is as it should be
    assert "warning: every reward is 0" in told.stdout
    record = json.loads(run("info", "dull", "--json").stdout)
    assert len(record["warnings"]) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("validate", "ward.csv"),
        ("fit", "ward.csv", "--task", "task.toml", "-o", "new", *LEARNT),
        ("evaluate", "ward", "mle", *FEW),
        ("compare", "ward", "mle", "nominal", *FEW),
        ("info", "best"),
        ("info",),
    ],
    ids=" ".join,
)
def test_quiet_leaves_the_exit_code(arguments: tuple[str, ...]) -> None:
    result = run(*arguments, "--quiet")
    assert (result.exit_code, result.output) == (0, "")


def test_compare_priors_says_what_the_library_says() -> None:
    loaded = bm.storage.load("ward").posterior
    data = bm.read_transitions("ward.csv")
    priors = bm.priors.usual_priors(loaded.prior)
    wanted = bm.compare_priors(priors, data, loaded.task, min_count=1, n_folds=3)
    told = run("compare-priors", "ward", "ward.csv", "--folds", "3")
    assert (told.exit_code, told.stderr) == (0, "")
    assert told.stdout == wanted.summary() + "\n"
    call = ("compare-priors", "ward", "ward.csv", "--folds", "3", "--json")
    record = json.loads(run(*call).stdout)
    assert (record.pop("schema_version"), record.pop("run")) == (1, "ward")
    assert record == wanted.to_dict() | {"fallback": None}
    call = (*call[:3], "--folds", "2", "--json")
    rows = json.loads(run(*call, "--fallback", "home").stdout)["rows"]
    assert [row["name"] for row in rows] == [*priors, "sparse"]
    beside = ("--prior", "scaled", "--prior", "hierarchical", "--fallback", "death")
    rows = json.loads(run(*call, *beside).stdout)["rows"]
    assert [row["name"] for row in rows] == ["as fitted", "scaled", "hierarchical"]
    assert [row["prior"].count("fallback='death'") for row in rows] == [1, 1, 1]


def test_sensitivity_says_what_the_library_says() -> None:
    loaded = bm.storage.load("ward").posterior
    call = ("prior-sensitivity", "ward", "nominal", *FEW, "--prior", "hierarchical")
    priors = {"as fitted": loaded.prior, "hierarchical": bm.HierarchicalPrior()}
    wanted = bm.prior_sensitivity(
        bm.policies.nominal(loaded),
        loaded.counts,
        loaded.task,
        priors,
        min_count=1,
        n_draws=200,
        seed=3,
    )
    told = run(*call)
    assert (told.exit_code, told.stderr) == (0, "")
    assert told.stdout == wanted.summary() + "\n"
    record = json.loads(run(*call, "--baseline", "behaviour", "--json").stdout)
    assert (record.pop("schema_version"), record.pop("run")) == (1, "ward")
    assert (record.pop("policy"), record.pop("baseline")) == ("nominal", "behaviour")
    assert record == wanted.to_dict()
    rows = json.loads(run(*call, "--baseline", "nominal", "--json").stdout)["rows"]
    assert [row["gain"] for row in rows] == [0, 0]


def test_improve_says_what_the_library_says() -> None:
    asked = ("--tail", "0.5", "--effort", "quick", "--seed", "2")
    result = run("improve", "ward", *asked, "--policy-out", "safer.csv")
    posterior = bm.storage.load("ward").posterior
    wanted = bm.improve(posterior, tail=0.5, effort="quick", seed=2)
    assert result.exit_code == int(not wanted.optimisation.converged), result.output
    assert result.stdout.startswith(wanted.summary().splitlines()[0])
    read = bm.storage.read_policy("safer.csv", posterior)
    assert np.array_equal(read, wanted.policy)
    record = json.loads(run("improve", "ward", *asked, "--json").stdout)
    assert record["tail_improvement"] == wanted.tail_improvement
    assert len(record["changes"]) == len(wanted.changes)
    refused = run("improve", "ward", "--tail", "2")
    assert refused.exit_code == 2
    assert refused.stderr == "bayesmdp: `--tail` must be in (0, 1]; got 2.\n"


@pytest.mark.parametrize("more", [(), ("--quiet",), ("--json",)])
def test_a_search_cut_short_says_so_once(more: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(bm, "improve", partial(bm.improve, max_seconds=0))
    result = run("improve", "ward", *more)
    assert result.exit_code == result.output.count("ended before it converged") == 1


def test_an_objective_is_given_by_name() -> None:
    asked = ("--objective", "cvar:0.5", "--effort", "quick", "--json")
    record = json.loads(run("optimise", "ward", *asked).stdout)
    posterior = bm.storage.load("ward").posterior
    wanted = bm.optimise(posterior, bm.CVaR(0.5), effort="quick", seed=0)
    assert record["objective"] == "CVaR(0.5)"
    assert record["objective_value"] == wanted.objective_value
    beyond = "`--objective` 'cvar:0': `tail` must be in (0, 1]; got 0."
    for text in ("cvar", "cvar:x", "tail:0.1", "cvar:0.1:2", "cvar:0"):
        refused = run("optimise", "best", "--objective", text)  # first of all
        said = beyond if text == "cvar:0" else "such as cvar:0.1 for the worst tenth"
        assert said in refused.stderr
