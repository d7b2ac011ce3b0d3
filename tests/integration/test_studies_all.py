"""All studies in one run: one that cannot run stops nobody, and one page shows all."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import toy_study
from click.testing import CliRunner
from test_studies import JOBS, keys_in, results, with_picture

import studies
from bayesmdp.errors import ArgumentError, BayesmdpError
from studies import Effort, Job, Outcome, Study, run_study
from studies.__main__ import main
from studies.all_studies import Part, in_order, minutes, run_all
from studies.study import spent

pytestmark = pytest.mark.integration

QUICK = Effort(quick=True)


def impossible(seed: int) -> list[dict[str, float]]:
    raise BayesmdpError("`torch` is missing: pip install --group studies")


def telling(records: list[dict[str, float]]) -> str:
    share = sum(x["share"] for x in records) / len(records)
    table = f"| coin | share |\n|---|---|\n| mean | {share:.2f} |"
    return f"{table}\n\n**Verdict:** *fair* & square | even: confirmed."


def unready(effort: Effort) -> list[Job]:
    raise ArgumentError("torch is not installed")


COINS = replace(toy_study.STUDY, tell=telling, title="Coins")
BROKEN = Study("broken", "Broken", toy_study.jobs, impossible, toy_study.tell)
LAST = replace(toy_study.STUDY, name="last", title="Last")
Offer = Callable[..., None]


@pytest.fixture
def offer(monkeypatch: pytest.MonkeyPatch) -> Offer:
    """Put other studies in place of the paper's."""

    def put(**offered: Study | BayesmdpError) -> None:
        def find(name: str) -> Study:
            study = offered[name]
            if isinstance(study, BayesmdpError):
                raise study
            return study

        monkeypatch.setattr(studies, "STUDIES", tuple(offered))
        monkeypatch.setattr(studies, "find_study", find)

    return put


def page(out: Path) -> str:
    return (out / "index.md").read_text(encoding="utf-8")


def test_one_page_shows_everything(offer: Offer, tmp_path: Path) -> None:
    picture = replace(with_picture(), name="picture", title="A picture")
    offer(coins=COINS, broken=BROKEN, picture=picture)
    parts = run_all(QUICK, tmp_path)
    assert [x.name for x in parts] == ["coins", "broken", "picture"]
    said = page(tmp_path)
    assert "3 of 3 studies with `--quick`." in said
    verdict = (
        "| [coins](#coins) | **confirmed** | *fair* & square \\| even: confirmed. |"
    )
    assert verdict in said
    why = "`torch` is missing: pip install --group studies"
    assert f"| [broken](#broken) |  | did not run: {why} |" in said
    assert f"\n## broken\n\n*Broken*\n\nDid not run: {why}\n" in said
    assert parts[0].outcome is not None
    assert parts[0].outcome.summary in said
    for address in re.findall(r"\]\((?!#)(.*?)\)", said):
        assert (tmp_path / address).is_file()
    assert "![A picture (coins)](picture/coins.png)" in said
    assert "`python -m studies picture --quick`; [picture/records.jsonl](" in said


def test_a_study_that_fails_leaves_the_processes_to_the_others(
    offer: Offer, tmp_path: Path
) -> None:
    missing = ArgumentError("not installed")
    offer(
        absent=missing,
        unready=replace(BROKEN, jobs=unready),
        broken=BROKEN,
        coins=toy_study.STUDY,
        last=LAST,
    )
    parts = {x.name: x for x in run_all(QUICK, tmp_path / "all", n_jobs=2)}
    ran = [name for name, x in parts.items() if x.problem is None]
    assert ran == ["coins", "last"]
    assert parts["absent"].problem == "not installed"
    assert parts["unready"].problem == "torch is not installed"
    alone = run_study(toy_study.STUDY, QUICK, tmp_path / "alone").directory
    assert results(tmp_path / "all" / "coins") == results(alone)


def test_a_lost_process_costs_its_own_study_only(offer: Offer, tmp_path: Path) -> None:
    doomed = replace(toy_study.STUDY, name="doomed", work=toy_study.dies)
    offer(doomed=doomed, coins=COINS, last=LAST)
    parts = {x.name: x.problem for x in run_all(QUICK, tmp_path, n_jobs=2)}
    assert "go on with `--resume`" in (parts.pop("doomed") or "")
    assert parts == {"coins": None, "last": None}


def test_nothing_is_computed_where_a_place_is_taken(
    offer: Offer, tmp_path: Path
) -> None:
    offer(coins=COINS, last=LAST)
    run_study(LAST, QUICK, tmp_path)
    with pytest.raises(ArgumentError, match="--resume"):
        run_all(QUICK, tmp_path)
    assert keys_in(tmp_path / "coins" / JOBS) == []
    again = run_all(QUICK, tmp_path, resume=True)
    assert all(x.problem is None for x in again)
    done = [x.outcome.seconds for x in again if x.outcome is not None]
    assert spent(tmp_path) == pytest.approx(sum(done))


def test_work_that_studies_share_is_said_and_counts_once(
    offer: Offer, tmp_path: Path
) -> None:
    offer(tosses=toy_study.TOSSES, luck=toy_study.LUCK, coins=COINS)
    parts = run_all(QUICK, tmp_path)
    tosses, luck, coins = (x.outcome.seconds for x in parts if x.outcome is not None)
    assert tosses == luck
    assert spent(tmp_path) == pytest.approx(tosses + coins)
    assert page(tmp_path).count("shared: coins-jobs") == 2


def test_the_command_says_what_did_not_run_and_exits_with_1(
    offer: Offer, tmp_path: Path
) -> None:
    offer(coins=COINS, broken=BROKEN)
    asked = ["all", "--quick", "--out", str(tmp_path)]
    done = CliRunner().invoke(main, asked)
    assert done.exit_code == 1
    assert "coins: *fair* & square | even: confirmed." in done.stdout
    assert "broken did not run: `torch` is missing" in done.stderr
    record = json.loads(CliRunner().invoke(main, [*asked, "--resume", "--json"]).stdout)
    assert record["page"].endswith("index.md")
    assert [x["problem"] is None for x in record["studies"]] == [True, False]
    offer(coins=COINS)
    assert CliRunner().invoke(main, [*asked, "--resume"]).exit_code == 0


def test_an_interrupt_of_all_leaves_what_was_done(offer: Offer, tmp_path: Path) -> None:
    def stop(seed: int) -> list[dict[str, float]]:
        raise KeyboardInterrupt

    offer(coins=COINS, last=replace(LAST, work=stop))
    asked = ["all", "--quick", "--out", str(tmp_path)]
    done = CliRunner().invoke(main, asked)
    assert done.exit_code == 130
    assert "--resume" in done.stderr
    assert "1 of 2 studies" in page(tmp_path)


def test_long_studies_come_last_and_none_is_lost() -> None:
    assert in_order(["fig2", "casino", "fig3", "new"]) == [
        "casino",
        "new",
        "fig3",
        "fig2",
    ]
    assert sorted(in_order(studies.STUDIES)) == sorted(studies.STUDIES)


@pytest.mark.parametrize(
    ("seconds", "said"), [(1.25, "1.2 s"), (90, "1.5 min"), (5400, "1.5 h")]
)
def test_times_are_said_as_people_do(seconds: float, said: str) -> None:
    assert minutes(seconds) == said


@pytest.mark.parametrize(
    ("said", "word"),
    [
        ("it holds: confirmed.", "confirmed"),
        ("Confirmed with a caveat: not of that size.", "confirmed with a caveat"),
        ("one is confirmed; in all: not confirmed: undecided.", "not confirmed"),
        ("nothing of the kind", ""),
    ],
)
def test_a_verdict_comes_to_a_word(said: str, word: str) -> None:
    outcome = Outcome(Path("x"), f"table\n**Verdict:** {said}", 1.0, ())
    assert Part("x", "X", outcome, None).word == word
    assert Part("x", "X", None, "no").word == ""
