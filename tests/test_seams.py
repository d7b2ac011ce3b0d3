"""The three seams: a belief, an objective and a backend of one's own, one class each.

Each is added here from outside, as a user or a later feature would add it, and works
with evaluate, compare, optimise and report.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import bayesmdp as bm
from bayesmdp import engine
from bayesmdp.engine import channels
from bayesmdp.optimisation import Objective
from bayesmdp.posterior import Belief, BeliefRows, Exits, Stream

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

WORLD = bm.worlds.synthetic(3, 4, 2, discount=0.9)
POSTERIOR = bm.fit(WORLD.sample(60, seed=1), WORLD.task, prior=bm.SymmetricPrior())
UNIFORM = np.full((4, 2), 0.5)
NOMINAL = bm.policies.nominal(POSTERIOR)


def use_everywhere(belief: Belief, page: Path, **options: Any) -> bm.Optimisation:
    """Evaluate, compare, optimise and report on a belief; return what was found."""
    draws = belief.draws(200, seed=2)
    alone = bm.evaluate(UNIFORM, draws, **options)
    found = bm.optimise(belief, seed=1, effort="quick", **options)
    table = bm.compare(
        {"uniform": UNIFORM, "found": found.policy},
        draws,
        reference="uniform",
        **options,
    )
    assert table.evaluations["uniform"].start_value == alone.start_value
    assert found.start_value > alone.start_value
    bm.report(belief, table, optimisation=found).save(page)
    assert page.stat().st_size > 10_000
    return found


# --- A belief whose rows are correlated within a state


class SharedStream(Stream):
    """Half of each row is its own, half is that of its state."""

    def __init__(self, seed: int, purpose: str, alpha: Array, row: Ints) -> None:
        self.seed, self.purpose, self.alpha, self.row = seed, purpose, alpha, row

    def of_rows(self, row: Ints) -> "SharedStream":
        return SharedStream(self.seed, self.purpose, self.alpha, self.row[row])

    def fill(self, draws: Ints, used: NDArray[np.bool_], theta: Array) -> None:
        n_states, n_actions, _ = self.alpha.shape
        for draw, out in zip(draws, theta, strict=True):
            rng = np.random.default_rng([self.seed, draw, *self.purpose.encode()])
            own = [rng.dirichlet(a) for a in self.alpha.reshape(-1, n_states)]
            mean = self.alpha.sum(axis=1)
            shared = np.repeat([rng.dirichlet(a) for a in mean], n_actions, axis=0)
            out[:] = ((np.array(own) + shared) / 2)[self.row].ravel()


class Shared(Belief):
    """A belief in which the actions of a state have a part in common."""

    n_models = None

    def __init__(self, posterior: bm.Posterior) -> None:
        self.task, self.counts = posterior.task, posterior.counts
        rows = posterior.rows()
        self.alpha = posterior.alpha.reshape(4, 2, 4)
        own = self.alpha / self.alpha.sum(axis=2, keepdims=True)
        state = self.alpha.sum(axis=1)
        shared = state / state.sum(axis=1, keepdims=True)
        mean = ((own + shared[:, None]) / 2).ravel()
        self._rows = replace(rows, mean=mean, total=None)

    def rows(self) -> BeliefRows:
        return self._rows

    def stream(self, n_draws: int | None, seed: int, purpose: str) -> SharedStream:
        return SharedStream(seed, purpose, self.alpha, np.arange(8))

    def describe(self) -> str:
        return "Rows of a state share half of their probability."

    def exits(self) -> Iterator[Exits]:
        yield Exits(self.alpha.ravel(), self.alpha.ravel())

    def mean_squares(self) -> Array:
        draws = np.arange(2000)
        theta = np.empty((draws.size, 32))
        self.stream(None, 0, "squares").fill(draws, np.ones(8, np.bool_), theta)
        return np.asarray((theta**2).mean(axis=0))


def solved(theta: Array, policy: Array) -> tuple[Array, Array]:
    """Values and return variances of one model, by numpy."""
    task, g = WORLD.task, WORLD.task.discount
    layout = POSTERIOR.rows().layout
    reward = task.transition_reward(
        layout.state, layout.action, layout.next_state, np.diff(layout.indptr)
    ).reshape(4, 2, 4)
    model = theta.reshape(4, 2, 4)
    chain = np.einsum("sa,sat->st", policy, model)
    paid = np.einsum("sa,sat,sat->s", policy, model, reward)
    value = np.linalg.solve(np.eye(4) - g * chain, paid)
    ahead = (reward + g * value - value[:, None, None]) ** 2
    spread = np.einsum("sa,sat,sat->s", policy, model, ahead)
    return value, np.linalg.solve(np.eye(4) - g**2 * chain, spread)


def test_a_belief_of_ones_own_is_evaluated_draw_by_draw(tmp_path: Path) -> None:
    belief = Shared(POSTERIOR)
    draws = belief.draws(100, seed=5)
    found = bm.evaluate(NOMINAL, draws, control=False)
    each = [solved(draws.dynamics(i).probability, NOMINAL) for i in range(100)]
    values, variances = (np.array(x) for x in zip(*each, strict=True))
    np.testing.assert_allclose(found.value, values.mean(axis=0), rtol=1e-10)
    np.testing.assert_allclose(found.epistemic_sd, values.std(axis=0, ddof=1))
    aleatoric = np.sqrt(variances.mean(axis=0))
    np.testing.assert_allclose(found.aleatoric_sd, aleatoric, rtol=1e-10)
    use_everywhere(belief, tmp_path / "page.html")


def test_correlated_rows_are_neither_replaced_by_means_nor_taken_apart() -> None:
    """Unused rows count in gradients and action values as the draw has them."""
    belief = Shared(POSTERIOR)
    draws = belief.draws(300, seed=5)
    q = bm.action_values(NOMINAL, draws, keep_values=True)
    assert q.values is not None
    gaps = q.values[:, :, 0] - q.values[:, :, 1]
    apart = np.sqrt((q.epistemic_sd**2).sum(axis=1))  # were the actions independent
    assert (gaps.std(axis=0) < 0.95 * apart).all()
    with pytest.raises(bm.BayesmdpError, match="independent Dirichlet rows"):
        bm.evaluate_analytic(NOMINAL, belief)


# --- An objective of one's own


@dataclass(frozen=True)
class Entropic(Objective):
    """``-log E[exp(-b J)] / b``: the mean where b is 0, and averse to spread."""

    b: float
    monotone = True

    def value(self, values: Array, probability: Array) -> float:
        least = values.min()
        mean = np.exp(-self.b * (values - least)) @ probability
        return float(least - np.log(mean) / self.b)

    def weights(self, values: Array, probability: Array) -> Array:
        weight = probability * np.exp(-self.b * (values - values.min()))
        return np.asarray(weight / weight.sum())


def test_an_objective_of_ones_own_finds_its_optimum() -> None:
    """The casino has two models and one decision: every policy can be looked at."""
    casino, objective = bm.worlds.casino(), Entropic(2.0)
    found = bm.optimise(casino, objective, seed=0)
    play = np.linspace(0, 1, 2001)
    policies = np.repeat(found.policy[None], play.size, axis=0)
    policies[:, 0] = np.stack([play, 1 - play], axis=1)
    best = max(
        objective.value(bm.evaluate(p, casino.draws()).start_values, np.full(2, 0.5))
        for p in policies[::20]
    )
    assert found.objective == "Entropic(b=2.0)"
    assert found.objective_value >= best - 1e-9
    mean = bm.optimise(casino, seed=0)
    assert not np.allclose(mean.policy[0], found.policy[0], atol=0.01)
    assert found.start_value < mean.start_value
    assert found.upper_bound >= found.objective_value


@dataclass(frozen=True)
class Tail(Objective):
    """Mean of the worst draws: most weights are 0 (conditional value at risk)."""

    share: float
    monotone = True

    def value(self, values: Array, probability: Array) -> float:
        return float(values @ self.weights(values, probability))

    def weights(self, values: Array, probability: Array) -> Array:
        order = np.argsort(values, kind="stable")
        before = np.cumsum(probability[order]) - probability[order]
        out = np.empty_like(probability)
        taken = np.clip(self.share - before, 0.0, probability[order])
        out[order] = taken / self.share
        return out


@dataclass(frozen=True)
class MeanSd(Objective):
    """Mean minus three standard deviations: weights may be negative."""

    def value(self, values: Array, probability: Array) -> float:
        mean = values @ probability
        return float(mean - 3 * np.sqrt((values - mean) ** 2 @ probability))

    def weights(self, values: Array, probability: Array) -> Array:
        mean = values @ probability
        sd = np.sqrt((values - mean) ** 2 @ probability)
        return np.asarray(probability * (1 - 3 * (values - mean) / sd))


@pytest.mark.parametrize("objective", [Tail(0.02), Tail(0.2), MeanSd()])
def test_weights_may_be_zero_or_negative(objective: Objective) -> None:
    """No seed fails, and no start is better by more than errors allow."""
    posterior = bm.fit(WORLD.sample(12, seed=2), WORLD.task, prior=bm.SymmetricPrior())
    draws = posterior.draws(10_000, seed=9)
    share = np.full(draws.n_draws, 1 / draws.n_draws)

    def worth(policy: Array) -> float:
        return objective.value(bm.evaluate(policy, draws).start_values, share)

    for seed in range(3):
        found = bm.optimise(posterior, objective, seed=seed, effort="quick")
        ours = worth(found.policy)
        assert abs(found.objective_value - ours) < 5 * found.objective_mcse
        best = max(worth(policy) for policy in found.starts.values())
        assert ours > best - 0.5 * found.objective_mcse
        assert np.isnan(found.gap) == (not objective.monotone)
        assert ("no upper bound" in found.status) == (not objective.monotone)


class Wrong(Objective):
    """Gives what it is told to."""

    def __init__(self, value: Any, weights: Any) -> None:
        self._value, self._weights = value, weights

    def value(self, values: Array, probability: Array) -> float:
        return self._value  # type: ignore[no-any-return]

    def weights(self, values: Array, probability: Array) -> Array:
        return self._weights  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("objective", "said"),
    [
        (Wrong(np.nan, np.ones(64)), "a finite number; Wrong.value gives nan for"),
        (Wrong(np.ones(3), np.ones(64)), "a finite number; Wrong.value gives array"),
        (Wrong(1.0, np.ones(3)), "one for each of 64 draws; Wrong.weights gives array"),
        (Wrong(1.0, np.full(64, np.nan)), "finite weights, one for each of 64 draws"),
    ],
)
def test_what_an_objective_gives_is_checked(objective: Objective, said: str) -> None:
    with pytest.raises(bm.BayesmdpError, match=said):
        bm.optimise(POSTERIOR, objective, starts={"one": UNIFORM}, effort="quick")


def test_an_objective_without_a_text_has_the_name_of_its_class() -> None:
    fine, method = Wrong(1.0, np.zeros(64)), bm.MirrorAscent(n_steps=1)
    fine.weights = lambda values, share: 0 * share  # type: ignore[method-assign]
    options: Any = {"method": method, "starts": {"one": UNIFORM}, "effort": "quick"}
    found = bm.optimise(POSTERIOR, fine, **options)
    assert found.objective == "Wrong"


def test_an_objective_of_ones_own_is_used_by_every_stage(tmp_path: Path) -> None:
    """On draws: judged with an error, better than the mean's policy for itself."""
    task = WORLD.task
    posterior = bm.fit(WORLD.sample(12, seed=2), task, prior=bm.SymmetricPrior())
    objective = Entropic(1.0)
    found = bm.optimise(posterior, objective, seed=3)
    mean = bm.optimise(posterior, seed=3)
    draws = posterior.draws(10_000, seed=9)
    share = np.full(draws.n_draws, 1 / draws.n_draws)
    ours, theirs = (
        objective.value(bm.evaluate(x.policy, draws).start_values, share)
        for x in (found, mean)
    )
    assert ours > theirs
    assert abs(found.objective_value - ours) < 4 * found.objective_mcse
    assert 0 < found.gap_mcse < found.gap
    assert found.summary().startswith("Entropic(b=1.0) of the value from the start: ")
    assert f"expected value {found.start_value:.3g}"[:18] in found.summary()
    table = bm.compare({"mean": mean.policy, "found": found.policy}, draws)
    bm.report(posterior, table, optimisation=found).save(tmp_path / "page.html")


# --- A backend of one's own


class Plain(engine.Backend):
    """Everything by numpy, one draw after the other."""

    name = "plain"

    def __init__(self) -> None:
        self.n_swept = 0

    def choose(self, problem: engine.Problem, wanted: str, *, adjoint: bool) -> Any:
        return SimpleNamespace(name="dense")

    def bytes_per_thread(self, problem: engine.Problem, solver: Any, bits: int) -> int:
        return int(8 * problem.n_live**2)

    def seconds_per_draw(self, problem: engine.Problem, solver: Any) -> float:
        return 1e-3

    def solve_mean(self, problem: engine.Problem, solver: Any, bits: int) -> Array:
        rows = problem.rows
        given = rows.mean, rows.reward
        return np.stack([self._solve(problem, p, *given) for p in problem.policies], 1)

    def inverses(self, problem: engine.Problem, solver: Any) -> Array:
        chains = [self._chain(problem, p, problem.rows.mean) for p in problem.policies]
        n, g = problem.n_live, problem.task.discount
        return np.stack([np.linalg.inv(np.eye(n) - g * c[:, :n]).T for c in chains])

    def _chain(self, problem: engine.Problem, policy: Array, theta: Array) -> Array:
        rows = problem.rows
        chain = np.zeros((problem.n_live, rows.start.size))
        row = rows.row_of_entry
        np.add.at(chain, (rows.source[row], rows.target), policy[row] * theta)
        return chain

    def _solve(
        self, problem: engine.Problem, policy: Array, theta: Array, reward: Array
    ) -> Array:
        """Value, variance, occupancy ``[3, S]``."""
        rows, n, g = problem.rows, problem.n_live, problem.task.discount
        row, chain = rows.row_of_entry, self._chain(problem, policy, theta)

        def by_state(x: Array) -> Array:
            return np.bincount(rows.source, policy * x, minlength=n).astype(float)

        out = np.zeros((3, rows.start.size))
        system = np.eye(n) - g * chain[:, :n]
        out[0, :n] = np.linalg.solve(system, by_state(rows.row_sums(theta * reward)))
        out[2, :n] = np.linalg.solve(system.T, rows.start[:n])
        out[2, n:] = rows.start[n:] + g * out[2, :n] @ chain[:, n:]
        ahead = (reward + g * out[0][rows.target] - out[0][rows.source[row]]) ** 2
        spread = by_state(rows.row_sums(theta * ahead))
        out[1, :n] = np.linalg.solve(np.eye(n) - g**2 * chain[:, :n], spread)
        return out

    def sweep(
        self,
        problem: engine.Problem,
        nominal: engine.Nominal,
        bits: int,
        first: int,
        weights: Array,
    ) -> engine.Sums:
        rows, stream, g = problem.rows, problem.stream, problem.task.discount
        assert stream is not None
        n_policies, n_states, n = len(problem.policies), rows.start.size, weights.size
        every = np.ones(rows.source.size, dtype=np.bool_)
        theta = np.empty((n, rows.target.size))
        stream.fill(np.arange(first, first + n), every, theta)
        shape = n_policies, -(-n // engine.BLOCK)
        state = np.zeros((*shape, channels.n_channels(bits), n_states))
        slopes = rows.source.size if bits & 4 else 0
        row = np.zeros((*shape, 2, slopes))
        start = np.zeros((n_policies, channels.N_START, n))
        for p, policy in enumerate(problem.policies):
            for i, w in enumerate(weights):
                self.n_swept += 1
                value, variance, visits = self._solve(
                    problem, policy, theta[i], rows.reward
                )
                found = np.stack([value, variance, visits]) - nominal.reference[:, p]
                y = z = np.zeros(n_states)
                if nominal.every_state:
                    y, z = self._controls(problem, nominal, p, theta[i])
                    start[p, 2:, i] = rows.start @ y, rows.start @ z
                self._reduce(state[p, i // engine.BLOCK], w, found, y, z)
                total = value + rows.terminal_value
                mean = rows.start @ total
                spread = rows.start @ (variance + (total - mean) ** 2)
                start[p, :2, i] = mean, spread
                if slopes:
                    paid = theta[i] * (rows.reward + g * value[rows.target])
                    gain = visits[rows.source] * (
                        rows.row_sums(paid) - value[rows.source]
                    )
                    row[p, i // engine.BLOCK] += np.stack([w * gain, (w * gain) ** 2])
        total = engine.Joiner()
        total.add_blocks(first // engine.BLOCK, state, row)
        solved_all = np.ones((n_policies, n), dtype=np.int8)
        products = np.zeros((n_policies, n), dtype=np.int64)
        kept = np.zeros((n_policies, 2, 0, n_states))
        return engine.Sums(total.nodes, start, solved_all, products, weights, kept)

    def _controls(
        self, problem: engine.Problem, nominal: engine.Nominal, p: int, theta: Array
    ) -> tuple[Array, Array]:
        """First- and second-order parts of the value, ``[S]`` each."""
        rows, g = problem.rows, problem.task.discount
        policy, off = problem.policies[p], theta - rows.mean

        def solved_for(paid: Array) -> Array:
            gain = policy * rows.row_sums(off * paid)
            out = np.zeros(rows.start.size)
            by_state = np.bincount(rows.source, gain, minlength=problem.n_live)
            out[: problem.n_live] = by_state @ nominal.inverse[p]
            return out

        y = solved_for(rows.reward + g * nominal.reference[0, p][rows.target])
        return y, solved_for(g * y[rows.target])

    def _reduce(self, sums: Array, w: float, found: Array, y: Array, z: Array) -> None:
        v, r, d = found
        names = {"V": v, "VV": v**2, "VVV": v**3, "VVVV": v**4, "R": r, "RR": r**2}
        names |= {"VR": v * r, "VVR": v**2 * r, "D": d, "DD": d**2}
        names |= {"Y": y, "YY": y**2, "Z": z, "ZZ": z**2}
        names |= {"VY": v * y, "VZ": v * z, "YZ": y * z}
        for name, x in names.items():
            at = getattr(channels, name)
            if at < len(sums):
                sums[at] += w * x


def test_a_backend_of_ones_own_computes_the_same(tmp_path: Path) -> None:
    plain = Plain()
    engine.register(plain)
    draws = POSTERIOR.draws(64, seed=2)
    ours = bm.evaluate(NOMINAL, draws, control=False)
    theirs = bm.evaluate(NOMINAL, draws, control=False, device="plain", threads=1)
    assert plain.n_swept == 64
    for name in ("value", "epistemic_sd", "aleatoric_sd", "occupancy", "value_mcse"):
        found, expected = getattr(theirs, name), getattr(ours, name)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(theirs.start_values, ours.start_values, rtol=1e-10)
    options: Any = {"device": "plain", "threads": 1, "solver": "dense"}
    belief = bm.fit(WORLD.sample(60, seed=1), WORLD.task, prior=bm.SymmetricPrior())
    found = bm.optimise(belief, seed=1, effort="quick", **options)
    same = bm.optimise(belief, seed=1, effort="quick")
    assert plain.n_swept > 500
    np.testing.assert_allclose(found.policy, same.policy, atol=1e-6)
    assert found.start_value == pytest.approx(same.start_value, rel=1e-9)
    assert found.start_value_mcse == pytest.approx(same.start_value_mcse, rel=1e-6)
    table = bm.compare({"a": UNIFORM, "b": found.policy}, draws, **options)
    bm.report(belief, table, optimisation=found).save(tmp_path / "page.html")
