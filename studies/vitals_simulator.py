"""A second simulator with exact truth: four vital signs and three treatments.

The structure and the probabilities are those of the sepsis simulator of Oberst and
Sontag (2019), written again as a table of probabilities. Vital signs: heart rate and
blood pressure (low, normal, high), oxygen (low, normal), glucose (five levels, the
middle one normal). Treatments, on or off: antibiotics, ventilation, vasopressors; an
action sets all three. A patient with three or more abnormal vital signs dies; one with
none, and no treatment, is discharged. Within a step the vital signs move independently
of each other, so that a row is a product of four small ones:

==============  ====================================================================
antibiotics     on: high heart rate and blood pressure become normal w.p. 0.5;
                stopped: normal ones become high w.p. 0.1
ventilation     on: low oxygen becomes normal w.p. 0.7; stopped: normal becomes low
                w.p. 0.1
vasopressors    on: blood pressure rises by one level w.p. 0.7; in diabetics normal
                becomes high w.p. 0.9, low becomes normal w.p. 0.5 or high w.p. 0.4,
                and glucose rises w.p. 0.5; stopped: pressure falls w.p. 0.1 (0.05 in
                diabetics)
fluctuation     of what no treatment was on or stopped for, and of glucose without
                vasopressors: up or down by one level w.p. 0.1 each; glucose of
                diabetics w.p. 0.3 each
==============  ====================================================================

Differences from the published program:

- Diabetes (w.p. 0.2) is part of the state, so that the process is Markov and values
  are exact; it is hidden there.
- Glucose of patients without diabetes fluctuates by one level up to the highest, as
  its documentation says; its code sends every upward move to the second lowest.
- Discharge pays 1 and death 0, in place of 1 and -1: a value is a discounted
  probability of discharge, as in ICU-Sepsis.

Clinicians choose the best action, and with probability 0.3 any of the eight, evenly.

References
----------
Oberst and Sontag, *Counterfactual Off-Policy Evaluation with Gumbel-Max Structural
Causal Models*, ICML 2019; github.com/clinicalml/gumbel-max-scm.
"""

from functools import lru_cache
from itertools import product

import numpy as np

import bayesmdp as bm
from bayesmdp._typing import BoolArray, FloatArray, IntArray

SOFTENED = 0.3  # probability that clinicians act at random
_P_DIABETES = 0.2
_LEVELS = {
    "heart rate": ("low", "normal", "high"),
    "pressure": ("low", "normal", "high"),
    "oxygen": ("low", "normal"),
    "glucose": ("very low", "low", "normal", "high", "very high"),
}
_TREATMENTS = ("antibiotics", "ventilation", "vasopressors")
_SETS = tuple(product((0, 1), repeat=3))  # of treatments: actions in their order
_HEART = _PRESSURE = np.array([0.25, 0.5, 0.25])
_OXYGEN = np.array([0.2, 0.8])
_GLUCOSE = (  # of patients without diabetes, and with it
    np.array([0.05, 0.15, 0.6, 0.15, 0.05]),
    np.array([0.01, 0.05, 0.15, 0.6, 0.19]),
)


def _moves(n: int, *moves: tuple[int, int, float]) -> FloatArray:
    """Levels ``[n, n]`` of which some move: (from, to, probability)."""
    chain = np.eye(n)
    for here, there, probability in moves:
        chain[here, there] += probability
        chain[here, here] -= probability
    return chain


def _steps(n: int, down: float, up: float) -> FloatArray:
    """One level down or up, where there is one."""
    falls = [(i, i - 1, down) for i in range(1, n)]
    return _moves(n, *falls, *((i, i + 1, up) for i in range(n - 1)))


def _antibiotics(on: int) -> FloatArray:
    """Heart rate or blood pressure while they are given, or stopped."""
    return _moves(3, (2, 1, 0.5)) if on else _moves(3, (1, 2, 0.1))


def _pressure(before: tuple[int, ...], now: tuple[int, ...], ill: int) -> FloatArray:
    """Antibiotics act first, vasopressors on what they leave."""
    chain, calm = np.eye(3), True
    if before[0] or now[0]:
        chain, calm = chain @ _antibiotics(now[0]), False
    if now[2]:
        rise = [(1, 2, 0.9), (0, 1, 0.5), (0, 2, 0.4)] if ill else []
        chain = chain @ (_moves(3, *rise) if ill else _steps(3, 0.0, 0.7))
    elif before[2]:
        chain = chain @ _steps(3, 0.05 if ill else 0.1, 0.0)
    elif calm:
        chain = _steps(3, 0.1, 0.1)
    return chain


def _vitals(before: tuple[int, ...], now: tuple[int, ...], ill: int) -> FloatArray:
    """Where vital signs go under treatments before and now, ``[90, 90]``."""
    treated = before[0] or now[0]
    heart = _antibiotics(now[0]) if treated else _steps(3, 0.1, 0.1)
    if now[1]:
        oxygen = _moves(2, (0, 1, 0.7))
    else:
        oxygen = _moves(2, (1, 0, 0.1)) if before[1] else _steps(2, 0.1, 0.1)
    if now[2]:
        glucose = _steps(5, 0.0, 0.5 if ill else 0.0)
    else:
        glucose = _steps(5, *(2 * [0.3 if ill else 0.1]))
    return _product(heart, _pressure(before, now, ill), oxygen, glucose)


def _product(*parts: FloatArray) -> FloatArray:
    """Vital signs that move, or begin, independently of each other."""
    whole, *rest = parts
    for part in rest:
        whole = np.asarray(np.kron(whole, part))
    return whole


def _abnormal() -> IntArray:
    """Count abnormal vital signs, ``[90]``."""
    off = [np.array([x != "normal" for x in names]) for names in _LEVELS.values()]
    return np.array([sum(x) for x in product(*off)])


def _live() -> BoolArray:
    """Which of (diabetes, vital signs, treatments) an episode goes on in."""
    off = _abnormal()[:, None]
    treated = np.array([any(x) for x in _SETS])
    alive = (off < 3) & ((off > 0) | treated)
    return np.stack([alive, alive])


def _labels(live: BoolArray) -> list[str]:
    """Say what is abnormal, what is given, and diabetes."""
    vitals = [
        [f"{level} {sign}" for sign, level in zip(_LEVELS, x, strict=True)]
        for x in product(*_LEVELS.values())
    ]
    said = []
    for ill, v, t in np.argwhere(live):
        parts = [x for x in vitals[v] if not x.startswith("normal")] or ["normal"]
        parts += [name for name, on in zip(_TREATMENTS, _SETS[t], strict=True) if on]
        said.append(", ".join(parts + ["diabetes"] * int(ill)))
    return said


def _start(live: BoolArray) -> FloatArray:
    """Untreated patients who are neither dead nor well, ``[L]``."""
    start = np.zeros(live.shape)
    for ill, share in enumerate((1 - _P_DIABETES, _P_DIABETES)):
        signs = _product(_HEART, _PRESSURE, _OXYGEN, _GLUCOSE[ill])
        kept = np.where(live[ill, :, 0], signs, 0.0)
        start[ill, :, 0] = share * kept / kept.sum()
    return start[live]


def _dynamics(live: BoolArray) -> FloatArray:
    """Probabilities ``[L + 2, 8, L + 2]``; death and discharge come last."""
    n = int(live.sum())
    number = np.full(live.shape, n + 1)  # well and untreated: discharge
    number[:, _abnormal() >= 3] = n
    number[live] = np.arange(n)
    theta = np.zeros((n + 2, len(_SETS), n + 2))
    for ill, (b, before), (a, now) in product(
        (0, 1), enumerate(_SETS), enumerate(_SETS)
    ):
        here = np.flatnonzero(live[ill, :, b])
        chain = _vitals(before, now, ill)[here]
        to = np.zeros((here.size, n + 2))
        np.add.at(to.T, number[ill, :, a], chain.T)
        theta[number[ill, here, b], a] = to
    theta[[n, n + 1], :, [n, n + 1]] = 1.0
    return theta


@lru_cache(maxsize=1)
def vitals_world(discount: float = 0.999) -> bm.MDP:
    """Return the true model: 606 live states, ``death`` and ``discharge``."""
    live = _live()
    n = int(live.sum())
    reward = np.zeros((n + 2, len(_SETS), n + 2))
    reward[:n, :, n + 1] = 1.0
    actions = [
        " + ".join(x for x, on in zip(_TREATMENTS, given, strict=True) if on) or "none"
        for given in _SETS
    ]
    task = bm.Task(
        n + 2,
        len(_SETS),
        reward,
        discount=discount,
        start=np.append(_start(live), [0.0, 0.0]),
        terminal=[n, n + 1],
        state_labels=[*_labels(live), "death", "discharge"],
        action_labels=actions,
    )
    return bm.MDP(bm.Dynamics.from_dense(_dynamics(live)), task)


def clinicians(world: bm.MDP) -> FloatArray:
    """Return the best policy of a world, softened, ``[S, A]``."""
    best = bm.policies.nominal(bm.Ensemble([world.dynamics], world.task))
    even = world.available / world.available.sum(axis=1, keepdims=True)
    return np.asarray((1 - SOFTENED) * best + SOFTENED * even)
