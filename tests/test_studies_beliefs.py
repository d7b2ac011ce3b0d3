"""The study of beliefs: its parts and its tables, against numbers made by hand."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bayesmdp as bm
from studies import Effort, beliefs, vitals_simulator
from studies.beliefs_page import plot, tell, write_page

Records = list[dict[str, Any]]
NAMES = list(beliefs.priors())


@pytest.fixture(scope="module")
def vitals() -> bm.MDP:
    return vitals_simulator.vitals_world()


@pytest.mark.parametrize(
    ("state", "action", "next_state", "probability"),
    [
        # heart rate falls 0.5, oxygen stays 0.9, glucose stays 0.8
        ("high heart rate", "antibiotics", "normal, antibiotics", 0.5 * 0.9 * 0.8),
        # pressure normal 0.5, glucose stays 0.5, heart rate stays 0.8, oxygen 0.9
        (
            *("low pressure, diabetes", "vasopressors"),
            *("normal, vasopressors, diabetes", 0.5 * 0.5 * 0.8 * 0.9),
        ),
        # pressure high 0.4, the rest as before
        (
            *("low pressure, diabetes", "vasopressors"),
            *("high pressure, vasopressors, diabetes", 0.4 * 0.5 * 0.8 * 0.9),
        ),
        # pressure rises 0.7, heart rate stays 0.8, oxygen becomes normal 0.7
        (
            *("low pressure, low oxygen", "ventilation + vasopressors"),
            *("normal, ventilation, vasopressors", 0.7 * 0.8 * 0.7),
        ),
        # vasopressors and ventilation stopped: pressure stays 0.9 and oxygen 0.9,
        # heart rate 0.8; very low glucose cannot fall, and rises 0.1
        (
            *("very low glucose, ventilation, vasopressors", "none"),
            *("very low glucose", 0.9 * 0.9 * 0.8 * 0.9),
        ),
        # heart rate, pressure and oxygen stay 0.9, glucose 0.8; discharged untreated
        ("normal, antibiotics", "none", "discharge", 0.9 * 0.9 * 0.9 * 0.8),
        # pressure falls from high by antibiotics 0.5, then rises by vasopressors 0.7;
        # or stays high 0.5: high again; ventilation keeps oxygen; glucose stays
        (
            *("high pressure", "antibiotics + ventilation + vasopressors"),
            *("high pressure, antibiotics, ventilation, vasopressors", 0.5 * 0.7 + 0.5),
        ),
        # two are abnormal and antibiotics and ventilation leave them so (a low heart
        # rate, low pressure): a third, glucose, becomes abnormal w.p. 0.3 + 0.3
        (
            *("low heart rate, low pressure, diabetes", "antibiotics + ventilation"),
            *("death", 0.6),
        ),
    ],
)
def test_vital_signs_move_as_published(
    vitals: bm.MDP, state: str, action: str, next_state: str, probability: float
) -> None:
    task = vitals.task
    to, share = vitals.dynamics.row(task.state(state), task.action(action))
    found = dict(zip(to.tolist(), share.tolist(), strict=True))
    assert found[task.state(next_state)] == pytest.approx(probability, abs=1e-12)


def test_patients_begin_untreated_and_clinicians_are_between_best_and_random(
    vitals: bm.MDP,
) -> None:
    task = vitals.task
    began = [task.state_name(s) for s in np.flatnonzero(task.start)]
    # one or two signs abnormal, with and without diabetes: 9 + 28
    assert len(began) == 2 * 37
    assert not any("vasopressors" in x or "antibiotics" in x for x in began)
    ill = ["diabetes" in task.state_name(s) for s in range(task.n_states)]
    assert task.start[np.array(ill)].sum() == pytest.approx(0.2)
    best = bm.policies.nominal(bm.Ensemble([vitals.dynamics], task))
    made = [best, vitals_simulator.clinicians(vitals), np.full(best.shape, 1 / 8)]
    values = [float(task.start @ vitals.value(x)) for x in made]
    assert values[0] > 0.9 > 0.6 > values[1] > 0.5 > 0.1 > values[2]


def small_world() -> bm.MDP:
    """Two live states and two actions, of which the second is better but rarer."""
    theta = np.zeros((4, 2, 4))
    theta[0] = [[0.5, 0.2, 0.2, 0.1], [0.2, 0.3, 0.1, 0.4]]
    theta[1] = [[0.1, 0.5, 0.2, 0.2], [0.1, 0.4, 0.1, 0.4]]
    theta[[2, 3], :, [2, 3]] = 1.0
    reward = np.zeros((4, 2, 4))
    reward[:2, :, 3] = 1.0
    task = bm.Task(
        *(4, 2, reward),
        discount=0.9,
        start=[0.7, 0.3, 0, 0],
        terminal=[2, 3],
        state_labels=["ward", "unit", "death", "home"],
    )
    return bm.MDP(bm.Dynamics.from_dense(theta), task)


@pytest.mark.parametrize("name", [NAMES[0], "evidence"])
def test_the_policy_is_that_of_pairs_with_enough_visits(name: str) -> None:
    world, prior = small_world(), beliefs.priors()[name]
    log = world.simulate([[0.95, 0.05]] * 4, 30, seed=1)
    visits = log.counts().pair_totals(4, 2)
    assert (visits[:2] >= 5).sum() == 2
    assert (visits[:2] > 0).sum() > 2
    policy, _, every_pair = beliefs.learnt(prior, log, world.task)
    enough = bm.fit(log, world.task, prior=prior, min_count=5)
    np.testing.assert_array_equal(policy, bm.policies.nominal(enough))
    behaviour = bm.policies.behaviour(every_pair)[:2]
    share = visits[:2] / visits[:2].sum(axis=1, keepdims=True)
    np.testing.assert_allclose(behaviour, share)


def by_hand() -> bm.Transitions:
    """Three patients: home after two steps, death, home at once from the unit."""
    return bm.Transitions.from_arrays(
        [0, 1, 0, 1],
        [0, 1, 0, 1],
        [1, 3, 2, 3],
        reward=[0.0, 1.0, 0.0, 1.0],
        episode=[0, 0, 1, 2],
        step=[0, 1, 0, 0],
        n_states=4,
        n_actions=2,
    )


def test_returns_and_starts_are_those_of_patients() -> None:
    log, task = by_hand(), small_world().task
    assert beliefs.returns(log, 0.9).tolist() == [0.9, 0.0, 1.0]
    np.testing.assert_allclose(beliefs.logged_start(log, task), [2 / 3, 1 / 3, 0, 0])
    training, rest = beliefs.split(log, 2, task)
    assert beliefs.returns(training, 0.9).tolist() == [0.9, 0.0]
    assert beliefs.returns(rest, 0.9).tolist() == [1.0]
    assert beliefs.logged_start(rest, task).tolist() == [0, 1, 0, 0]


def test_next_states_that_training_never_led_to_are_one_event() -> None:
    world = small_world()
    training = bm.Counts.from_arrays([0, 0, 1], [0, 1, 1], [1, 2, 3], n_states=4)
    rest = bm.Counts.from_arrays(
        *([0, 0, 0, 1], [0, 0, 1, 0], [0, 1, 3, 0], [5, 2, 1, 9]), n_states=4
    )
    found, count = beliefs.event_densities(world.dynamics, training, rest, world.task)
    # Ward to itself was not observed: the event has the rest of the row, which is
    # that entry alone; the unit's first action was not visited, so it is not scored.
    np.testing.assert_allclose(np.exp(found), [0.5, 0.2, 0.4])
    assert count.tolist() == [5, 2, 1]
    nowhere = bm.Counts.from_arrays([0], [0], [2], n_states=4, n_actions=2)
    found, _ = beliefs.event_densities(world.dynamics, nowhere, rest, world.task)
    # Neither live state was observed after the ward: 0.5 + 0.2 for both.
    np.testing.assert_allclose(np.exp(found), [0.7, 0.7])


def records(predicted: float, true: float, names: list[str] = NAMES) -> Records:
    """Four cohorts of two simulators; evidence has so much more than all others."""
    return [
        {
            "simulator": simulator,
            "size": 2000,
            "cohort": cohort,
            "prior": name,
            "clinicians_value": 0.5,
            "chosen_predicted": 0.7 + predicted * (name == "evidence"),
            "chosen_true": 0.6 + (true + 1e-4 * cohort) * (name == "evidence"),
            "chosen_covered": name == NAMES[0],
            "behaviour_predicted": 0.52,
            "behaviour_true": 0.51,
            "behaviour_covered": cohort > 1,
            "observed": 0.49 + 0.01 * cohort,
            "seconds_fit": 2.0,
        }
        | (
            {
                "held_out_log_density": -1.5,
                "held_out_no_mass": 0.25 * (name == "sparse, death"),
                "held_out_predicted": 0.5,
                "held_out_return": 0.6,
            }
            if cohort == 1
            else {}
        )
        for simulator in beliefs.SIMULATORS
        for cohort in (0, 1, 2, 3)
        for name in names
    ]


def last(text: str) -> str:
    return text.splitlines()[-1]


def test_the_tables_tell_what_the_records_hold() -> None:
    told = tell(records(0.1, -0.05))
    assert "**2,000 patients**, cohorts 0 to 3 (held-out: 1 of them)" in told
    start = f"| {NAMES[0]} | 0.7000 ± 0.0000 | 0.6000 ± 0.0000 | 0.1000 ± 0.0000 | "
    line = next(x for x in told.splitlines() if x.startswith(start))
    # 0.52 less 0.49 to 0.52 is 0.015 on average, with an error of 0.0129 / 2.
    rest = "4 of 4 | 0.0000 ± 0.0000 | 0.0150 ± 0.0065 | 0.0100 ± 0.0000 | 2 of 4 | "
    assert line == f"{start}{rest}-1.500 | -0.1000 | 2.0 s |"
    assert "-1.500 (25 % without mass)" in told
    # All sizes together, the least bias first: evidence misses by 0.25.
    glance = [x for x in told.splitlines() if x.startswith("|")][2 : 2 + len(NAMES)]
    assert glance[0] == f"| {NAMES[0]} | 0.1000 | 0.0150 | 4 of 4 | 2 of 4 |"
    assert glance[-1].startswith("| evidence | 0.2498 |")


def test_the_verdict_follows_the_records() -> None:
    said = last(tell(records(0.1, -0.05)))
    assert "predicts 0.1000 ± 0.0000 more than the sparse one" in said
    assert "predicted values go from 0.700 to 0.800" in said
    assert said.endswith(": confirmed.")
    alike = last(tell(records(0.1, -1.5e-4)))
    assert alike.endswith("for the two true values cannot be told apart.")
    assert last(tell(records(-0.1, 0.05))).endswith(": not confirmed.")


def test_the_page_is_made_of_a_run(tmp_path: Path) -> None:
    from studies import run_study
    from studies.study import Job, Study

    pytest.importorskip("matplotlib")
    found = records(0.1, -0.05)
    study = Study(
        "beliefs", "Beliefs", lambda _: [Job("all")], lambda: found, tell, plot
    )
    run = run_study(study, Effort(), tmp_path / "out").directory
    (tmp_path / "pictures").mkdir()
    write_page(run, tmp_path)
    page = (tmp_path / "beliefs.md").read_text()
    assert tell(found) in page
    assert "](pictures/beliefs.png)" in page
    assert (tmp_path / "pictures" / "beliefs.png").stat().st_size > 10_000


def test_a_quick_look_leaves_the_cohorts_that_judge_alone() -> None:
    of = {x: beliefs.STUDY.jobs(Effort(quick=x)) for x in (True, False)}
    assert {x.params["cohort"] for x in of[True]} == {100, 101}
    assert {x.params["cohort"] for x in of[False]} == set(range(4000, 4010))
    jobs = of[False]
    assert (
        len(jobs) == len({x.key for x in jobs}) == 6 * (10 * 2 + 2 * (len(NAMES) - 2))
    )
    assert sum(x.params["held_out"] for x in jobs) == 6 * 2 * len(NAMES)


def test_every_kind_of_prior_is_on_trial() -> None:
    said = " ".join(map(repr, beliefs.priors().values()))
    kinds = "Hierarchical Symmetric Sparse Scaled Evidence RandomSupport Fallback"
    for kind in [*kinds.split()]:
        assert f"{kind}Prior(" in said
    for base in ("local", "marginal"):
        assert f"base='{base}'" in said
