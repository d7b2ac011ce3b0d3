"""Everything about one state, for all states: columns, so that the page stays small.

Pairs are listed state by state: those a policy may use, and those that were logged.
``first[i]`` to ``first[i + 1]`` are the pairs of the i-th state shown; in the same way
``next_first`` cuts the next states into pairs. Probabilities of next states are whole
ten-thousandths.

The rule for each state: where both policies take the same action most often, there is
nothing to change. Otherwise the evidence suffices to recommend if every action of the
recommendation was observed ``min_count`` times or more, and if the probability that
deciding so once is better than deciding as the reference does is at least 95 %.
Elsewhere one should defer to the reference.
"""

from typing import Any

import numpy as np

from bayesmdp._typing import FloatArray, IntArray
from bayesmdp.evaluation import ActionValues, action_values
from bayesmdp.reporting._grid import find_grid
from bayesmdp.reporting._inputs import Inputs
from bayesmdp.reporting._next_states import LEVEL, SHOWN, next_states
from bayesmdp.reporting._numbers import SURE, column, whole

_PLAYED = 0.01  # probability from which on an action is part of a recommendation
_SCALE = 10_000
_MOST_DRAWS, _LEAST_DRAWS = 1000, 16  # on which actions are valued
_MOST_SAMPLED = 100_000_000  # probabilities that are sampled for it, some seconds


def explorer_section(inputs: Inputs) -> dict[str, Any]:
    """Return columns over states, pairs and next states."""
    task, belief = inputs.task, inputs.posterior
    reference = inputs.comparison.evaluations[inputs.reference]
    values = _action_values(inputs, reference.policy)
    pair, row = _pairs(inputs)
    state = pair // task.n_actions
    return {
        "policy": inputs.recommended,
        "reference": inputs.reference,
        "action_labels": [task.action_name(a) for a in range(task.n_actions)],
        "first": whole(np.searchsorted(state, np.append(inputs.shown, task.n_states))),
        "action": whole(pair % task.n_actions),
        "available": whole(row >= 0),
        "seen": None if inputs.visits is None else whole(inputs.visits.ravel()[pair]),
        "value": column(values.value.ravel()[pair], 6),
        "epistemic_sd": column(values.epistemic_sd.ravel()[pair], 3),
        "aleatoric_sd": column(values.aleatoric_sd.ravel()[pair], 3),
        "chance": column(values.probability_better.ravel()[pair], 3),
        "plays": {
            name: _plays(e.policy.ravel()[pair])
            for name, e in inputs.evaluations.items()
        },
        **_verdicts(inputs, values),
        "next": _next(inputs, row),
        "grid": find_grid(task, belief.mean()),
        "rule": _rule(inputs),
        "how": _how(inputs, values),
    }


def _action_values(inputs: Inputs, reference: FloatArray) -> ActionValues:
    """Values of all actions, on as many draws as can be afforded."""
    belief, drawn = inputs.posterior, inputs.best
    if drawn.exact:
        every = belief.draws()
        return action_values(drawn.policy, every, reference=reference, progress=False)
    most = _MOST_SAMPLED // max(belief.rows().layout.next_state.size, 1)
    n = int(np.clip(most, _LEAST_DRAWS, min(drawn.n_draws, _MOST_DRAWS)))
    draws = belief.draws(max(n, 2), drawn.seed)
    return action_values(drawn.policy, draws, reference=reference, progress=False)


def _pairs(inputs: Inputs) -> tuple[IntArray, IntArray]:
    """Pairs of the states shown, and the row of each in the mean model, or -1."""
    rows = inputs.posterior.mean().rows
    listed = rows.available.copy()
    if inputs.visits is not None:
        listed |= inputs.visits > 0
    listed[inputs.task.is_terminal] = False
    hidden = np.ones(listed.shape[0], dtype=np.bool_)
    hidden[inputs.shown] = False
    listed[hidden] = False
    pair = np.flatnonzero(listed)
    row = np.minimum(np.searchsorted(rows.pair, pair), rows.pair.size - 1)
    return pair, np.where(rows.pair[row] == pair, row, -1)


def _plays(probability: FloatArray) -> dict[str, Any]:
    """Pairs a policy plays, and how often, ``[K]`` each."""
    at = np.flatnonzero(probability > 1e-4)
    return {"pair": whole(at), "probability": column(probability[at], 3)}


def _verdicts(inputs: Inputs, values: ActionValues) -> dict[str, Any]:
    """Say for each state shown whether the evidence suffices."""
    policy, shown = inputs.best.policy, inputs.shown
    seen = None
    if inputs.visits is not None:
        seen = np.where(policy > _PLAYED, inputs.visits, np.iinfo(np.int64).max)
        seen = seen.min(axis=1)
    chance = values.gain_probability
    reference = inputs.comparison.evaluations[inputs.reference].policy
    same = policy.argmax(axis=1) == reference.argmax(axis=1)
    said = []
    for s in shown.tolist():
        if inputs.task.is_terminal[s]:
            said.append("end")
        elif same[s]:
            said.append("same")
        elif seen is not None and seen[s] < inputs.comparison.min_count:
            said.append("thin")
        elif seen is None:
            said.append("unknown")
        else:
            said.append("recommend" if chance[s] >= SURE else "unclear")
    return {
        "verdict": said,
        "gain": column(values.gain[shown], 4),
        "gain_sd": column(values.gain_sd[shown], 3),
        "gain_chance": column(chance[shown], 4),
        "n_verdicts": {x: said.count(x) for x in dict.fromkeys(said)},
    }


def _next(inputs: Inputs, row: IntArray) -> dict[str, Any]:
    """Return next states of the pairs listed that have a row and were observed."""
    belief = inputs.posterior
    rows = belief.mean().rows
    wanted = row[row >= 0]
    first = inputs.best.policy.ravel()[rows.pair[wanted]] > _PLAYED
    others = ~first
    if inputs.visits is not None:
        others &= inputs.visits.ravel()[rows.pair[wanted]] > 0
    found = next_states(belief, wanted[first], wanted[others])
    length = np.where(row >= 0, found.length[np.maximum(row, 0)], 0)
    return {
        "shown": SHOWN,
        "level": LEVEL,
        "scale": _SCALE,
        "first": whole(np.concatenate([[0], np.cumsum(length)])),
        "state": whole(found.next_state),
        "probability": _scaled(found.probability),
        "low": _scaled(found.low),
        "high": _scaled(found.high),
        "count": None if found.count is None else whole(found.count),
        "how": _interval_words(inputs),
    }


def _scaled(probability: FloatArray) -> list[int]:
    return whole(np.rint(_SCALE * probability).astype(np.int64))


def _interval_words(inputs: Inputs) -> str:
    if inputs.posterior.n_models is not None:
        return "Intervals are quantiles of the models, 95 %."
    if inputs.posterior.rows().total is None:
        return (
            "Intervals hold about 95 %; they are those of Beta distributions with the "
            "mean and variance of the posterior, which is a mixture."
        )
    return "Intervals hold 95 % of the posterior probability (Beta distributions)."


def _rule(inputs: Inputs) -> str:
    return (
        f"Where “{inputs.recommended}” and “{inputs.reference}” take the same action "
        "most often, there is no other action to recommend. Otherwise the evidence "
        f"suffices to recommend if every action of “{inputs.recommended}” was observed "
        f"at least {inputs.comparison.min_count} times and if deciding so once, rather "
        f"than as “{inputs.reference}” does, is better with a probability of "
        f"{100 * SURE:.0f} % or more. Elsewhere: defer to “{inputs.reference}”."
    )


def _how(inputs: Inputs, values: ActionValues) -> str:
    """Say where the values of actions come from."""
    drawn = "models" if inputs.best.exact else "draws"
    return (
        f"Values are of taking the action once and following “{inputs.recommended}” "
        f"afterwards, over {values.n_draws:,} {drawn} of every row."
    )
