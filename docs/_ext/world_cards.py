"""Cards of worlds: what they are, in words; their sizes and best values, computed.

::

    :::{world-card} gridworld
    :states: squares, row by row from the top left
    :actions: up, right, down, left
    :reward: 1 for entering the goal
    :licence: part of this package (BSD-3-Clause)
    :source: Valdettaro and Faisal (2024), section 5.1
    :::
"""

import warnings
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from docutils import nodes
from docutils.parsers.rst import Directive, directives
from docutils.statemachine import StringList

import bayesmdp as bm

#: How each world is made, as a user writes it.
CALLS: dict[str, str] = {
    "gridworld": "bm.worlds.gridworld()",
    "synthetic": "bm.worlds.synthetic(seed=0)",
    "wet_chicken": "bm.worlds.wet_chicken()",
    "riverswim": "bm.worlds.riverswim()",
    "machine_replacement": "bm.worlds.machine_replacement()",
    "random_mdp": "bm.worlds.random_mdp(seed=0)",
    "icu_sepsis": "bm.worlds.icu_sepsis(discount=1)",
    "casino": "bm.worlds.casino()",
    "FrozenLake": 'bm.worlds.from_gymnasium("FrozenLake-v1", discount=0.99)',
    "Taxi": 'bm.worlds.from_gymnasium("Taxi-v4", discount=0.99)',
    "CliffWalking": 'bm.worlds.from_gymnasium("CliffWalking-v1", discount=0.99)',
}
#: Policies that the literature starts from, beside the best and the uniform one.
OTHERS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "icu_sepsis": ("clinicians", lambda world: world.expert),
    "wet_chicken": (
        "heuristic with 0.1 of its choices random",
        lambda world: bm.worlds.wet_chicken_baseline(0.1),
    ),
    "random_mdp": (
        "baseline halfway between both",
        lambda world: bm.worlds.random_mdp_baseline(world, 0.5),
    ),
}


def made(name: str) -> tuple[bm.Ensemble, str]:
    """Return the world as an ensemble of its model, and the call."""
    call = CALLS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bm.BayesmdpWarning)
        world = eval(call, {"bm": bm})
    return world, call


def numbers(name: str) -> dict[str, str]:
    """Sizes and exact values of a world, in words."""
    world, call = made(name)
    several = isinstance(world, bm.Ensemble)
    belief = world if several else bm.Ensemble([world.dynamics], world.task)
    task = world.task
    values = (
        {"best found": bm.optimise(belief, seed=0).policy}  # a search: no proof
        if several
        else {"best": bm.policies.nominal(belief)}
    )
    values["uniform random"] = bm.policies.uniform(belief)
    if name in OTHERS:
        other, policy = OTHERS[name]
        values[other] = policy(world)
    said = []
    for label, policy in values.items():
        found = bm.evaluate(policy, belief)
        said.append(f"{found.start_value:.4f} ({label} policy)")
    start = np.flatnonzero(task.start)
    return {
        "In Python": f"``{call}``",
        "Sizes": f"{task.n_states:,} states ({task.terminal.size} terminal), "
        f"{task.n_actions} actions"
        + ("" if several else f", {world.dynamics.rows.next_state.size:,} entries"),
        "Discount": f"{task.discount:g}",
        "Start": f"state {start[0]}"
        if start.size == 1
        else f"{start.size:,} states, by their probabilities",
        "Exact values from the start": "; ".join(said),
    }


class WorldCard(Directive):
    """Words of the page beside numbers of the package."""

    required_arguments = 1
    option_spec: ClassVar = dict.fromkeys(
        ("states", "actions", "reward", "ends", "licence", "source"),
        directives.unchanged_required,
    )

    def run(self) -> list[nodes.Node]:
        """Lay the card out as a table of two columns."""
        words = {k.capitalize(): x for k, x in self.options.items()}
        computed = numbers(self.arguments[0])
        order = ("In Python", "Sizes", "States", "Actions", "Reward", "Ends")
        order += ("Discount", "Start", "Exact values from the start")
        order += ("Source", "Licence")
        rows = {k: (computed | words)[k] for k in order if k in computed | words}
        text = [
            ".. list-table::",
            "   :widths: 22 78",
            "   :stub-columns: 1",
            "   :class: world-card",
            "",
        ]
        for key, said in rows.items():
            text += [f"   * - {key}", f"     - {said}"]
        # The page is Markdown; the table is reStructuredText.
        wrapped = StringList(["```{eval-rst}", *text, "```"], "world-card")
        holder = nodes.container()
        self.state.nested_parse(wrapped, self.content_offset, holder)
        return holder.children


def setup(app: Any) -> dict[str, bool]:
    """Join the build."""
    app.add_directive("world-card", WorldCard)
    return {"parallel_read_safe": True}
