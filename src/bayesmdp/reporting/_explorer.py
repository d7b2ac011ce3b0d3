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

The likeliest next states of a pair, with intervals of their probabilities.

Intervals are the belief's own: Betas for Dirichlet rows, quantiles of models for an
ensemble, a Beta of the same mean and variance otherwise.

Whether the states are squares of a grid, and which way each action points.

They are where actions are called up, right, down and left, and either every state is
called like ``(2, 3)``, row and column, or ``right`` leads most often one state on and
``down`` always the same number of states on, which is then the width.
"""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayesmdp._typing import FloatArray, IntArray
from bayesmdp.evaluation import ActionValues, action_values
from bayesmdp.model import Dynamics, Task
from bayesmdp.posterior import Belief
from bayesmdp.reporting._inputs import SURE, Inputs, column, whole

_PLAYED = 0.01  # probability from which on an action is part of a recommendation
_SCALE = 10_000
_MOST_DRAWS, _LEAST_DRAWS = 1000, 16  # on which actions are valued
# Name on the page, field of `ActionValues`, digits.
_OF_ACTIONS = (
    ("value", "value", 6),
    ("epistemic_sd", "epistemic_sd", 3),
    ("aleatoric_sd", "aleatoric_sd", 3),
    ("chance", "probability_better", 3),
)
_OF_DECISIONS = (
    ("gain", "gain", 4),
    ("gain_sd", "gain_sd", 3),
    ("gain_chance", "gain_probability", 4),
)
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
        **{
            name: None
            if values is None
            else column(getattr(values, source).ravel()[pair], digits)
            for name, source, digits in _OF_ACTIONS
        },
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


def _action_values(inputs: Inputs, reference: FloatArray) -> ActionValues | None:
    """Values of all actions, on as many draws as can be afforded.

    None with a horizon, where they change with time, and of costs.
    """
    belief, drawn = inputs.posterior, inputs.best
    if not inputs.knows_actions:
        return None
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


def _verdicts(inputs: Inputs, values: ActionValues | None) -> dict[str, Any]:
    """Say for each state shown whether the evidence suffices."""
    policy, shown = inputs.best.policy, inputs.shown
    seen = None
    if inputs.visits is not None:
        seen = np.where(policy > _PLAYED, inputs.visits, np.iinfo(np.int64).max)
        seen = seen.min(axis=1)
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
        elif seen is None or values is None:
            said.append("unknown")
        else:
            sure = values.gain_probability[s] >= SURE
            said.append("recommend" if sure else "unclear")
    return {
        "verdict": said,
        **{
            name: None if values is None else column(getattr(values, of)[shown], n)
            for name, of, n in _OF_DECISIONS
        },
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
    return "Intervals contain 95 % of the posterior probability (Beta distributions)."


def _rule(inputs: Inputs) -> str:
    return (
        f"Where “{inputs.recommended}” and “{inputs.reference}” take the same action "
        "most often, there is no other action to recommend. Otherwise the evidence "
        f"suffices to recommend if every action of “{inputs.recommended}” was observed "
        f"at least {inputs.comparison.min_count} times and if deciding so once, rather "
        f"than as “{inputs.reference}” does, is better with a probability of "
        f"{100 * SURE:.0f} % or more. Elsewhere: defer to “{inputs.reference}”."
    )


def _how(inputs: Inputs, values: ActionValues | None) -> str:
    """Say where the values of actions come from."""
    if values is None:
        return (
            "Values of single actions are left out: they are known for discounted "
            "rewards without a horizon, and this task has "
            f"{'a cost' if inputs.task.is_cost else inputs.task.said_time}."
        )
    drawn = "models" if inputs.best.exact else "draws"
    return (
        f"Values are of taking the action once and following “{inputs.recommended}” "
        f"afterwards, over {values.n_draws:,} {drawn} of every row. `improve` may "
        "judge a state otherwise: it finds another policy, the best in the worst "
        "draws, and values decisions that are followed by that one, on its own draws."
    )


SHOWN = 20
LEVEL = 0.95
MAX_ENTRIES = 75_000  # of all pairs together, so that the page stays small


@dataclass(frozen=True, eq=False)
class NextStates:
    """The likeliest next states of some rows, one row after the other."""

    length: IntArray  # [R], how many of each row; 0: left out
    next_state: IntArray  # [L]
    probability: FloatArray  # [L], posterior mean
    low: FloatArray  # [L]
    high: FloatArray  # [L]
    count: IntArray | None  # [L], how often it was logged; None without counts


def next_states(belief: Belief, first: IntArray, others: IntArray) -> NextStates:
    """Collect the likeliest next states of rows: of ``first`` all that are shown.

    Where that is too much, those of ``others`` are cut to fewer, the same for all.
    """
    mean = belief.mean()
    rows = mean.rows
    length = np.zeros(rows.pair.size, dtype=np.int64)
    full = np.minimum(np.diff(rows.indptr), SHOWN)
    length[first] = full[first]
    room = MAX_ENTRIES - int(length.sum())
    most = next(
        (k for k in range(SHOWN, 0, -1) if np.minimum(full[others], k).sum() <= room), 0
    )
    length[others] = np.minimum(full[others], most)
    entry = np.concatenate(
        [
            np.empty(0, dtype=np.int64),
            *(
                _likeliest(mean.probability, rows.indptr, int(row), int(length[row]))
                for row in np.flatnonzero(length)
            ),
        ]
    )
    low, high = belief.intervals(entry, LEVEL)
    return NextStates(
        length=length,
        next_state=rows.next_state[entry],
        probability=mean.probability[entry],
        low=low,
        high=high,
        count=_counts(belief, entry),
    )


def _likeliest(
    probability: FloatArray, indptr: IntArray, row: int, many: int
) -> IntArray:
    """Entries of the likeliest next states of one row, the likeliest first."""
    begin, end = indptr[row], indptr[row + 1]
    order = np.argsort(-probability[begin:end], kind="stable")
    return np.asarray(begin + order[:many])


def _counts(belief: Belief, entry: IntArray) -> IntArray | None:
    """How often each entry was logged."""
    logged, rows = belief.counts, belief.rows().layout
    if logged is None:
        return None
    seen = np.zeros(rows.next_state.size, dtype=np.int64)
    _, at = rows.find(logged.state, logged.action, logged.next_state)
    seen[at[at >= 0]] = logged.count[at >= 0]
    return np.asarray(seen[entry])


_ARROWS = {"up": "↑", "right": "→", "down": "↓", "left": "←"}
_NAMES = {"north": "up", "east": "right", "south": "down", "west": "left"}
_SQUARE = re.compile(r"\(?\s*(\d{1,4})\s*[,;]\s*(\d{1,4})\s*\)?")
_MOST = 2_500  # squares drawn


def find_grid(task: Task, mean: Dynamics) -> dict[str, Any] | None:
    """Return rows and columns of all states, and arrows of actions; or None."""
    names = [task.action_name(a).strip().lower() for a in range(task.n_actions)]
    names = [_NAMES.get(name, name) for name in names]
    if not set(_ARROWS) <= set(names) or task.n_states > _MOST:
        return None
    place = _by_label(task) or _by_moves(task, mean, names)
    if place is None:
        return None
    row, column = place
    return {
        "row": row,
        "column": column,
        "arrow": [_ARROWS.get(name, "·") for name in names],
    }


def _by_label(task: Task) -> tuple[list[int], list[int]] | None:
    found = [_SQUARE.fullmatch(x.strip()) for x in task.state_labels or ()]
    if not found or not all(found):
        return None
    row = [int(x[1]) for x in found if x]
    column = [int(x[2]) for x in found if x]
    if len(set(zip(row, column, strict=True))) < len(row):
        return None
    row, column = ([x - min(of) for x in of] for of in (row, column))
    if (max(row) + 1) * (max(column) + 1) > _MOST:  # mostly holes
        return None
    return row, column


def _by_moves(
    task: Task, mean: Dynamics, names: list[str]
) -> tuple[list[int], list[int]] | None:
    width = _commonest(mean, names.index("down"))
    right = _commonest(mean, names.index("right"))
    if right != 1 or width is None or width < 2 or task.n_states % width:
        return None
    row, column = np.divmod(np.arange(task.n_states), width)
    return row.tolist(), column.tolist()


def _commonest(mean: Dynamics, action: int) -> int | None:
    """How far an action leads most often, to states that come later."""
    rows = mean.rows
    row = rows.row_of_entry
    mine = rows.action[row] == action
    step: IntArray = rows.next_state[mine] - rows.state[row[mine]]
    ahead = step > 0
    if not ahead.any():
        return None
    return int(np.argmax(np.bincount(step[ahead], mean.probability[mine][ahead])))
