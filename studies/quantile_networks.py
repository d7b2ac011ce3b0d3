"""Quantile networks, trained side by side as one batched network.

Network ``m`` maps a state (one-hot) through two hidden layers with rectifiers to the
quantiles of the return of every action, at levels ``tau[q] = (q + 1/2) / Q``. Axis
``M`` of the weights runs over the networks. The first gives the targets of all; the
others, the ensemble, are held to where they began. One step, on a batch of transitions
``(s, a, r, t)`` with ``b`` drawn from the policy in ``t``::

    y[j]    = r + g theta_target[0, t, b, j]            0 after the end of the episode
    loss[m] = sum_q mean_j |tau[q] - 1(y[j] < x[q])| |y[j] - x[q]|,  x = theta[m, s, a]
            + noise_scale^2 |w[m] - w_initial[m]|^2 / (prior_scale^2 n)     for m > 0

averaged over the batch and minimised by Adam; ``n`` counts the transitions there are.
All targets are sorted once, so that the loss costs ``Q log Q``, not ``Q^2``.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from itertools import pairwise
from typing import Any

import numpy as np

from bayesmdp._typing import BoolArray, FloatArray, IntArray
from bayesmdp.errors import ArgumentError

_ADAM_EPSILON = 1e-8


def import_torch(needed_by: str) -> Any:
    """Return torch, or say how to get it."""
    try:
        return import_module("torch")
    except ImportError as problem:
        raise ArgumentError(
            f"`{needed_by}` needs torch, which is not installed; "
            "`pip install --group studies` gets it."
        ) from problem


@dataclass(frozen=True, eq=False)
class Experience:
    """Transitions to learn from; axis K runs over rows."""

    state: IntArray  # [K]
    action: IntArray  # [K]
    reward: FloatArray  # [K]
    next_state: IntArray  # [K]
    ended: BoolArray  # [K], next_state is terminal
    cumulative: FloatArray | None  # [K], to draw rows by weight; else they come in turn
    n_data: int  # transitions that rows stand for
    warm_up: int  # steps before the first update

    def rows(self, rng: np.random.Generator, step: int, size: int) -> IntArray:
        """Draw a batch among the rows that are there after ``step`` steps."""
        if self.cumulative is None:
            return rng.integers(0, step, size)
        at: FloatArray = rng.random(size) * self.cumulative[-1]
        return np.searchsorted(self.cumulative, at, side="right")

    def n_seen(self, step: int) -> int:
        """How many transitions there are after ``step`` steps."""
        return step if self.cumulative is None else self.n_data


@dataclass(frozen=True)
class Settings:
    """How to train; `quantile_evaluate` explains and checks them."""

    n_networks: int
    n_quantiles: int
    n_steps: int
    batch_size: int
    learning_rate: float
    width: int
    target_every: int
    noise_scale: float
    weight_scale: float
    log_every: int
    seed: int


@dataclass(frozen=True, eq=False)
class Logged:
    """The networks before a step, and the mean loss until the next report."""

    step: int
    quantiles: FloatArray  # [M + 1, S, A, Q]
    loss: float | None  # None after the last step


@contextmanager
def one_thread(torch: Any) -> Iterator[None]:
    """Let torch work on one thread, where sums have one order, and put it back."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def train(
    torch: Any,
    experience: Experience,
    policy: FloatArray,
    discount: float,
    settings: Settings,
) -> Iterator[Logged]:
    """Yield reports, the last of them after the last step.

    ``policy`` is ``[S, A]``; its terminal rows do not matter.
    """
    training = _Training(torch, experience, policy, discount, settings)
    for begin in range(experience.warm_up, settings.n_steps, settings.log_every):
        quantiles = training.table()
        end = min(begin + settings.log_every, settings.n_steps)
        losses = [training.step(step) for step in range(begin, end)]
        yield Logged(begin, quantiles, float(np.mean(losses)))
    yield Logged(settings.n_steps, training.table(), None)


def initial_weights(
    torch: Any, n_states: int, n_actions: int, settings: Settings
) -> list[Any]:
    """Return orthogonal weights and zero biases of three layers, ``[M + 1, ...]``."""
    generator = torch.Generator(device="cpu").manual_seed(settings.seed)
    out = n_actions * settings.n_quantiles
    sizes = (n_states, settings.width, settings.width, out)

    def layer(n_in: int, n_out: int) -> Any:
        empty = torch.empty((n_out, n_in), dtype=torch.float32, device="cpu")
        scale = settings.weight_scale
        return torch.nn.init.orthogonal_(empty, scale, generator=generator).T

    # One network after the other: a larger ensemble holds the smaller one.
    networks = [
        [layer(n_in, n_out) for n_in, n_out in pairwise(sizes)]
        for _ in range(settings.n_networks + 1)
    ]
    weights = []
    for of_networks in zip(*networks, strict=True):
        weight = torch.stack(of_networks)
        weights += [weight, torch.zeros_like(weight[:, :1])]
    return weights


class _Training:
    """Weights, and what moves them."""

    def __init__(
        self,
        torch: Any,
        experience: Experience,
        policy: FloatArray,
        discount: float,
        settings: Settings,
    ) -> None:
        self._torch, self._experience, self._settings = torch, experience, settings
        self._discount = discount
        self._choice = np.cumsum(policy, axis=1)  # [S, A]
        self._rng = np.random.default_rng([settings.seed, 0x7175616E74])
        self._quantiles = _Quantiles(torch, policy.shape[1], settings.n_quantiles)
        n_states, n_actions = policy.shape
        self._weights = initial_weights(torch, n_states, n_actions, settings)
        self._anchors = [w[1:].clone() for w in self._weights]
        self._pull = _pull(torch, self._anchors, settings.noise_scale)
        self._target = self._weights
        for w in self._weights:
            w.requires_grad_(True)
        self._adam = torch.optim.Adam(
            self._weights, lr=settings.learning_rate, eps=_ADAM_EPSILON
        )

    def table(self) -> FloatArray:
        """Return all quantiles as they are, ``[M + 1, S, A, Q]``."""
        return self._quantiles.table(self._weights)

    def step(self, step: int) -> float:
        """Learn from one batch; return the loss of a network and quantile."""
        if self._target is self._weights or step % self._settings.target_every == 0:
            self._target = [w.detach()[:1].clone() for w in self._weights]
        seen = self._experience
        rows = seen.rows(self._rng, step, self._settings.batch_size)
        x = self._quantiles.of_pairs(self._weights, seen.state[rows], seen.action[rows])
        loss = self._quantiles.loss(x, self._targets(rows))
        gradients = self._torch.autograd.grad(loss.sum(), self._weights)
        pull = 2.0 * self._pull / seen.n_seen(step)
        for w, gradient, anchor in zip(
            self._weights, gradients, self._anchors, strict=True
        ):
            gradient[1:] += pull * (w.detach()[1:] - anchor)
            w.grad = gradient
        self._adam.step()
        return float(loss.detach().mean()) / self._settings.n_quantiles

    def _targets(self, rows: IntArray) -> Any:
        """Return ``y`` of the module docstring, ``[B, Q]``."""
        seen, torch = self._experience, self._torch
        following = seen.next_state[rows]
        action = _choose(self._choice[following], self._rng)
        after = self._quantiles.of_pairs(self._target, following, action)[0]
        goes_on = np.where(seen.ended[rows], 0.0, self._discount)
        reward = _tensor(torch, seen.reward[rows])[:, None]
        return reward + _tensor(torch, goes_on)[:, None] * after


def _pull(torch: Any, anchors: list[Any], noise_scale: float) -> float:
    """Noise variance over prior variance; the prior's is read off one network."""
    spread = float(torch.stack([x[0].std(correction=1) for x in anchors]).mean())
    return noise_scale**2 / spread**2


def _choose(cumulative: FloatArray, rng: np.random.Generator) -> IntArray:
    """Draw an action from each row of cumulative probabilities."""
    at = rng.random((cumulative.shape[0], 1))
    passed: IntArray = (cumulative <= at).sum(axis=1, dtype=np.int64)
    passed[passed == cumulative.shape[1]] -= 1  # rows may sum to a little below 1
    return passed


def _tensor(torch: Any, array: FloatArray) -> Any:
    return torch.as_tensor(array, dtype=torch.float32, device="cpu")


class _Quantiles:
    """Quantiles that weights stand for, and their loss."""

    def __init__(self, torch: Any, n_actions: int, n_quantiles: int) -> None:
        self._torch = torch
        self._shape = (n_actions, n_quantiles)
        self._level = _tensor(torch, (np.arange(n_quantiles) + 0.5) / n_quantiles)

    def _of_states(self, weights: list[Any], state: Any) -> Any:
        """Return ``[M, B, A, Q]``; a one-hot state picks a row of the first layer."""
        torch = self._torch
        w1, b1, w2, b2, w3, b3 = weights
        hidden = torch.relu(w1[:, state] + b1)
        hidden = torch.relu(torch.baddbmm(b2, hidden, w2))
        out = torch.baddbmm(b3, hidden, w3)
        return out.view(*out.shape[:2], *self._shape)

    def of_pairs(self, weights: list[Any], state: IntArray, action: IntArray) -> Any:
        """Return ``[M, B, Q]``."""
        out = self._of_states(weights, self._torch.as_tensor(state))
        return out[:, self._torch.arange(state.size), self._torch.as_tensor(action)]

    def table(self, weights: list[Any]) -> FloatArray:
        """Return all quantiles ``[M, S, A, Q]``."""
        state = self._torch.arange(weights[0].shape[1])
        with self._torch.no_grad():
            found = self._of_states(weights, state)
        return np.asarray(found.numpy(), dtype=np.float64)

    def loss(self, x: Any, y: Any) -> Any:
        """Loss ``[M]`` of quantiles ``[M, B, Q]`` against targets ``[B, J]``."""
        torch = self._torch
        n = y.shape[-1]
        y = y.sort(dim=-1).values
        total = torch.nn.functional.pad(y.cumsum(dim=-1), (1, 0))  # of the smallest
        x_first = x.detach().transpose(0, 1)  # [B, M, Q]
        below = torch.searchsorted(y, x_first.flatten(1)).view(x_first.shape)
        smaller = total.gather(1, below.flatten(1)).view(x_first.shape)
        below, smaller = below.transpose(0, 1), smaller.transpose(0, 1)
        over = below * x - smaller
        under = total[:, -1, None] - smaller - (n - below) * x
        loss = (1 - self._level) * over + self._level * under
        return loss.sum(dim=-1).mean(dim=-1) / n
