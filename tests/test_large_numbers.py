"""Values in money are written out: 9240, not 9.24e+03."""

import re

import numpy as np
import pandas as pd

import bayesmdp as bm

EXPONENT = re.compile(r"\d(\.\d+)?e[+]\d")


def trial(n: int = 400) -> pd.DataFrame:
    """Patients with yearly visits, treated by chance."""
    rng, rows = np.random.default_rng(0), []
    for i in range(n):
        state = int(rng.integers(2))
        for step in range(4):
            stays = np.array([[0.8, 0.15, 0.05], [0.1, 0.7, 0.2]][state])
            after = int(rng.choice(3, p=stays))
            rows.append((i, step, state, int(rng.integers(2)), after))
            if after == 2:
                break
            state = after
    names = ["episode", "step", "state", "action", "next_state"]
    return pd.DataFrame(rows, columns=names)


def test_no_table_and_no_page_writes_money_with_an_exponent() -> None:
    log = bm.read_transitions(trial())
    pays = [[25_000, 22_500], [15_000, 12_500], [0, 0]]
    task = bm.Task(
        3, 2, pays, discount=0.97, terminal=[2], start="uniform", reward_unit="EUR"
    )
    posterior = bm.fit(log, task, prior=bm.SymmetricPrior())
    policies = {"old": [0, 0, 0], "new": [1, 1, 1], "best": [1, 0, 0]}
    table = bm.compare(policies, posterior.draws(200, seed=0), reference="old")
    found = {
        "check": bm.check(posterior, log, n_draws=100),
        "negative_control": bm.negative_control(
            log, task, bm.SymmetricPrior(), n_permutations=20
        ),
        "cross_fit": bm.cross_fit(log, task, bm.SymmetricPrior()),
        "off_policy": bm.off_policy([0, 0, 0], log, task),
        "information": bm.value_of_information(posterior, policies, n_visits=(100,)),
    }
    texts = [table.summary(), bm.improve(posterior).summary()]
    texts += [x.summary() for x in found.values()]
    priors = {"one": bm.SymmetricPrior(), "few": bm.SparsePrior()}
    texts += [bm.compare_priors(priors, log, task).summary()]
    texts += [bm.action_values([0, 0, 0], posterior.draws(50, seed=0)).summary()]
    for text in texts:
        assert not EXPONENT.search(text), text
    html = bm.report(posterior, table, **found).html()
    html = re.sub(r"(?s)<(script|style).*?</\1>|<[^>]*>", " ", html)
    assert not (odd := EXPONENT.search(html)), html[odd.start() - 200 : odd.end()]
    assert "Expected value of perfect information (in EUR): " in html
