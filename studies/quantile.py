"""An ensemble of quantile networks, as a rival for uncertainties.

With quantiles ``theta[m, s, a, q]`` of network ``m`` (see ``quantile_networks.py``),
policy ``pi`` and ``mixed[m, s, q] = sum_a pi[s, a] theta[m, s, a, q]``, Clements et al.
(2019, section 3) part the uncertainty in state ``s`` so::

    epistemic_sd^2 = mean_q Var_m(mixed[m, s, q])                  with M - 1
    aleatoric_sd^2 = mean of Cov_(a, q)(theta[i, s], theta[j, s]) over pairs i != j
                     weights pi[s, a] / Q; 0 where negative

From the start distribution, ``(s, a)`` with weights ``start[s] pi[s, a]`` takes the
place of ``a``: a random start is chance.
"""

import warnings
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from bayesmdp import _checks
from bayesmdp._resources import check_room, progress_bar
from bayesmdp._typing import ArrayLike, FloatArray, IntArray, Seed
from bayesmdp.errors import (
    ArgumentError,
    BayesmdpWarning,
    ConvergenceError,
)
from bayesmdp.evaluation import Evaluation
from bayesmdp.model import Task, as_policy
from bayesmdp.posterior import Fitted
from bayesmdp.worlds import MDP
from studies.quantile_networks import (
    Experience,
    Logged,
    Settings,
    import_torch,
    one_thread,
    train,
)

_EPISODE = 1000  # steps after which an episode is cut
_RARE = 100  # episodes a transition, beyond which no more are tried


@dataclass(frozen=True, eq=False)
class QuantileHistory:
    """How training went; axis T runs over reports.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> QuantileHistory.__dataclass_fields__.keys()
    dict_keys(['step', 'loss', 'value', 'epistemic_sd'])
    """

    step: IntArray  # [T], steps done
    loss: FloatArray  # [T], mean over networks and quantiles until the next report
    value: FloatArray  # [T, S]
    epistemic_sd: FloatArray  # [T, S]


@dataclass(frozen=True, eq=False, repr=False)
class QuantileEvaluation:
    """What quantile networks say about a policy, and how they came to it.

    Made by `quantile_evaluate`.
    """

    evaluation: Evaluation
    history: QuantileHistory

    def __repr__(self) -> str:
        return (
            f"QuantileEvaluation({self.evaluation!r}, {self.history.step.size} reports)"
        )


def quantile_evaluate(
    policy: ArrayLike,
    world: MDP | Fitted,
    *,
    n_networks: int = 5,
    n_quantiles: int = 50,
    n_steps: int = 10_000,
    batch_size: int = 64,
    learning_rate: float = 2e-3,
    width: int = 100,
    target_every: int = 100,
    warm_up: int = 500,
    noise_scale: float = 1.0,
    weight_scale: float = 3.0,
    log_every: int = 100,
    seed: Seed = 0,
    progress: bool | None = None,
) -> QuantileEvaluation:
    """Evaluate a policy by SARSA with an ensemble of quantile networks.

    The uncertainty-aware agent of Clements et al. (2019), which Festor et al. (2021)
    brought to clinical problems, with its policy held fixed. Its epistemic uncertainty
    is disagreement of networks about what they were trained on; it does not know how
    much data stands behind a model that it is trained in. Use `bayesmdp.evaluate` to
    know how far to trust a policy, and this to see the difference. Needs torch.

    Parameters
    ----------
    policy
        ``[S, A]`` probabilities or ``[S]`` actions, on available pairs.
    world
        What the networks learn from. An `MDP`, to train on episodes of the policy in
        it, which grow by one transition a step; the paper trains in the
        maximum-likelihood model. Or a posterior from `bayesmdp.fit`, to replay its
        logged transitions, drawn evenly; its prior does not matter.
    n_networks
        Size of the ensemble, at least 2, which is what Clements et al. have; more make
        the disagreement less noisy, not smaller.
    n_quantiles
        Quantiles of the return of each pair.
    n_steps
        Steps, each with one batch of ``batch_size`` transitions, warm-up included.
    batch_size
        Transitions a batch; drawn with replacement, the same for all networks.
    learning_rate
        Of Adam.
    width
        Units of each of the two hidden layers.
    target_every
        Steps between copies of the target network.
    warm_up
        Steps in a world before the first update.
    noise_scale, weight_scale
        Scale of the noise, which says how strongly networks are held to where they
        began, and gain of their orthogonal initial weights.
    log_every
        Steps between reports in ``history``.
    seed
        Of initial weights, batches and episodes. Results are the same on one machine
        with one version of torch; training runs on one thread.
    progress
        Whether to show a bar; by default on a terminal, after a second.

    Returns
    -------
    QuantileEvaluation
        ``evaluation``, in which networks take the place of draws: ``*_mcse`` are what
        more networks would remove, not what more training would. ``occupancy`` and
        ``prior_share`` are NaN: networks do not tell. And ``history``.

    Notes
    -----
    The paper (appendix D) gives the number of steps and nothing else about the
    networks. Defaults are those of the script for a gridworld that Clements et al.
    released (github.com/IndustAI/risk-and-uncertainty), whose goal pays ten times what
    the paper's does, and each step costs 1. Where this differs from it:

    * actions are the policy's, and targets take the policy's action in the next state
      instead of the best one (the paper's adaptation);
    * five networks in place of two;
    * values are the ensemble's means, so that they come with an error; theirs are of
      the network that gives the targets, which is trained here too;
    * nothing is forgotten; they keep the last 10,000 transitions, as many as steps;
    * the covariance is taken around the mean of the policy's actions; theirs, around
      the mean of all actions;
    * states are all that networks see; theirs also see the time;
    * a cut episode (after 1,000 steps) is not an end; theirs (after 15) is;
    * replaying a log, the pull towards the initial weights is divided by the number of
      logged transitions; in a world, as theirs, by the number of steps.

    Quantiles need not be in order, as in the original. Rewards should be of the order
    of 1 to 10: networks begin around values of 1 and learn at a fixed rate.

    References
    ----------
    Clements, Van Delft, Robaglia, Slaoui, Toth: Estimating Risk and Uncertainty in Deep
    Reinforcement Learning, arXiv:1905.09638. Festor, Luise, Komorowski, Faisal:
    Enabling risk-aware Reinforcement Learning for medical interventions through
    uncertainty decomposition, arXiv:2109.07827.

    Examples
    --------
    >>> import numpy as np, bayesmdp as bm
    >>> from importlib.util import find_spec
    >>> world = bm.worlds.gridworld()
    >>> policy = np.where(np.arange(25) % 5 == 4, 2, 1)  # right, then down
    >>> if find_spec("torch"):
    ...     found = quantile_evaluate(
    ...         policy, world, n_networks=2, n_steps=300, warm_up=100
    ...     )
    ...     assert found.evaluation.n_draws == 2  # networks
    ...     assert found.history.step.tolist() == [100, 200]
    """
    if not isinstance(world, MDP | Fitted):
        raise ArgumentError(
            "`world` must be an MDP, or a posterior whose log is replayed; got "
            f"{type(world).__name__}."
        )
    probabilities = as_policy(policy, world)
    settings = _settings(
        n_networks=n_networks,
        n_quantiles=n_quantiles,
        n_steps=n_steps,
        batch_size=batch_size,
        width=width,
        target_every=target_every,
        log_every=log_every,
        learning_rate=learning_rate,
        noise_scale=noise_scale,
        weight_scale=weight_scale,
        seed=seed,
    )
    _check_size(world, settings)
    warm_up = _checked_warm_up(warm_up, world, settings)
    torch = import_torch("quantile_evaluate")
    experience = _experience(probabilities, world, settings, warm_up)
    reports = []
    with one_thread(torch), progress_bar("training", settings.n_steps, progress) as bar:
        for logged in train(
            torch, experience, probabilities, world.task.discount, settings
        ):
            found = _measure(logged, probabilities, world.task)
            reports.append((logged.step, logged.loss, found))
            if bar is not None:
                bar(logged.step, f"step {logged.step:,}")
    notes = _notes(experience, probabilities, world.task)
    for note in notes:
        warnings.warn(note, BayesmdpWarning, stacklevel=2)
    *before, last = reports
    history = QuantileHistory(
        step=_checks.sealed(np.array([step for step, _, _ in before])),
        loss=_checks.sealed(np.array([loss for _, loss, _ in before])),
        value=_checks.sealed(np.array([x.states["value"] for _, _, x in before])),
        epistemic_sd=_checks.sealed(
            np.array([x.states["epistemic_sd"] for _, _, x in before])
        ),
    )
    evaluation = _evaluation(last[2], probabilities, world.task, settings, notes)
    return QuantileEvaluation(evaluation, history)


def _settings(*, seed: Seed, **given: Any) -> Settings:
    """Check what is given by name."""
    least = {"n_networks": 2, "n_quantiles": 2}
    checked: dict[str, Any] = {"seed": _checks.seed_integer(seed)}
    for name, value in given.items():
        if name in ("learning_rate", "weight_scale", "noise_scale"):
            positive = name != "noise_scale"
            checked[name] = _checks.real(
                name, value, ArgumentError, 0, open_low=positive
            )
        else:
            low = least.get(name, 1)
            checked[name] = _checks.integer(name, value, low, ArgumentError)
    return Settings(**checked)


def _check_size(world: MDP | Fitted, settings: Settings) -> None:
    """Refuse networks, batches and episodes that cannot be held."""
    n_states, width = world.task.n_states, settings.width
    outputs = world.task.n_actions * settings.n_quantiles
    weights = n_states * width + width**2 + width * outputs
    # A table and what is made of it; weights with moments, slopes, target and anchor.
    a_network = 5 * 8 * n_states * outputs + 6 * 4 * weights
    a_network += 2 * 4 * settings.batch_size * (2 * width + outputs)
    needed = (settings.n_networks + 1) * a_network
    if isinstance(world, MDP):
        needed += 8 * 8 * settings.n_steps
    remedy = (
        "use fewer `n_quantiles`, `n_networks` or `n_steps`, or a smaller `width` or "
        "`batch_size`"
    )
    said = f"{settings.n_networks} networks of {outputs:,} quantiles for each state"
    check_room(needed, f"Training {said} takes", lambda _: remedy)


def _checked_warm_up(warm_up: int, world: MDP | Fitted, settings: Settings) -> int:
    """Return 0 for a log, which is all there from the beginning."""
    warm_up = _checks.integer("warm_up", warm_up, 1, ArgumentError)
    if not isinstance(world, MDP):
        return 0
    if settings.n_steps <= warm_up:
        raise ArgumentError(
            f"`n_steps` must exceed `warm_up`, {warm_up}, or nothing is learnt; got "
            f"{settings.n_steps}."
        )
    return warm_up


def _experience(
    policy: FloatArray, world: MDP | Fitted, settings: Settings, warm_up: int
) -> Experience:
    task, cumulative = world.task, None
    if isinstance(world, MDP):
        if task.discount == 1.0:
            world.value(policy)  # refuses episodes that need not end
        state, action, next_state = _episodes(policy, world, settings)
        n_data = state.size
    else:
        counts = world.counts
        live = ~task.is_terminal[counts.state]  # a padded end is no transition
        if not live.any():
            raise ArgumentError(
                "`world` has logged no transition from a state that is not terminal: "
                "fit it to a log that holds some, or give an MDP."
            )
        state, action = counts.state[live], counts.action[live]
        next_state = counts.next_state[live]
        cumulative = np.cumsum(counts.count[live], dtype=np.float64)
        n_data = int(cumulative[-1])
    return Experience(
        state=state,
        action=action,
        reward=task.transition_reward(state, action, next_state),
        next_state=next_state,
        ended=task.is_terminal[next_state],
        cumulative=cumulative,
        n_data=n_data,
        warm_up=warm_up,
    )


def _episodes(
    policy: FloatArray, world: MDP, settings: Settings
) -> tuple[IntArray, IntArray, IntArray]:
    """Walk ``n_steps`` transitions, one episode after the other."""
    n = max(settings.n_steps // _EPISODE, 1)
    while True:
        log = world.simulate(policy, n, settings.seed, max_steps=_EPISODE)
        if log.n_rows >= settings.n_steps:
            break
        if n > _RARE * settings.n_steps:
            raise ArgumentError(
                f"`world` starts {n:,} episodes with {log.n_rows:,} transitions in "
                f"all, too few for `n_steps`, {settings.n_steps:,}: put its task's "
                "`start` on states that are not terminal."
            )
        n *= 2  # fewer episodes are the beginning of more
    columns = cast("Any", log.table).columns  # a world's log lies in memory
    state, action, next_state = (
        columns[name][: settings.n_steps] for name in ("state", "action", "next_state")
    )
    return state, action, next_state


@dataclass(frozen=True, eq=False)
class _Measured:
    states: dict[str, FloatArray]  # name of a quantity, and its error: [S]
    start: dict[str, FloatArray]  # [1]
    start_values: FloatArray  # [M]


def _measure(logged: Logged, policy: FloatArray, task: Task) -> _Measured:
    """Value and uncertainties of every state, and from the start."""
    theta = logged.quantiles[1:].copy()  # the first gives targets, no opinion
    if not (np.isfinite(logged.quantiles).all() and np.isfinite(logged.loss or 0.0)):
        raise ConvergenceError(
            f"Training went astray after step {logged.step}, numbers are not finite: "
            "scale rewards to the order of 1, or use a smaller `learning_rate`."
        )
    theta[:, task.terminal] = task.terminal_value[task.terminal, None, None]
    weights = policy.copy()
    weights[task.terminal, 0] = 1.0  # nothing is chosen there, any action will do
    states, _ = _parted(theta, weights)
    n, n_states, n_actions, n_quantiles = theta.shape
    start, values = _parted(
        theta.reshape(n, 1, n_states * n_actions, n_quantiles),
        (task.start[:, None] * weights).reshape(1, -1),
    )
    return _Measured(states, start, values[:, 0])


def _parted(
    theta: FloatArray, weights: FloatArray
) -> tuple[dict[str, FloatArray], FloatArray]:
    """Decompose variances of groups: theta ``[M, X, A, Q]``, weights ``[X, A]``.

    Returns estimates by name, ``[X]``, and the value that each network gives.
    """
    n, n_quantiles = theta.shape[0], theta.shape[-1]
    mixed = np.einsum("xa,mxaq->mxq", weights, theta)
    values = mixed.mean(axis=-1)  # [M, X]
    epistemic = np.sqrt(mixed.var(axis=0, ddof=1).mean(axis=-1))
    around = theta - values[:, :, None, None]
    share = weights / n_quantiles
    own = np.einsum("xa,mxaq->mx", share, around**2)  # variance by each network
    joint = np.einsum("xa,xaq->x", share, around.sum(axis=0) ** 2)
    chance = np.sqrt(np.maximum((joint - own.sum(axis=0)) / (n * (n - 1)), 0.0))
    total = np.hypot(epistemic, chance)
    epistemic_error = epistemic / np.sqrt(2.0 * (n - 1))  # of normal spread
    chance_error = _half(own.std(axis=0, ddof=1) / np.sqrt(n), chance)
    return {
        "value": values.mean(axis=0),
        "value_mcse": values.std(axis=0, ddof=1) / np.sqrt(n),
        "epistemic_sd": epistemic,
        "epistemic_sd_mcse": epistemic_error,
        "aleatoric_sd": chance,
        "aleatoric_sd_mcse": chance_error,
        "total_sd": total,
        "total_sd_mcse": _half(
            2.0 * np.hypot(epistemic * epistemic_error, chance * chance_error), total
        ),
    }, values


def _half(error: FloatArray, sd: FloatArray) -> FloatArray:
    """Error of a root from that of its square."""
    return np.where(sd > 0, error / (2.0 * np.where(sd > 0, sd, 1.0)), 0.0)


def _notes(experience: Experience, policy: FloatArray, task: Task) -> tuple[str, ...]:
    """Say where networks had nothing to learn from."""
    seen = np.zeros(policy.shape, dtype=np.bool_)
    seen[experience.state, experience.action] = True
    blind = np.flatnonzero(((policy > 0) & ~seen).any(axis=1) & ~task.is_terminal)
    if not blind.size:
        return ()
    return (
        f"In {blind.size} of {task.live.size} states (first: state "
        f"{task.state_name(int(blind[0]))}) the networks saw no transition of some "
        "action of the policy: what they say there comes from their initial weights.",
    )


def _evaluation(
    found: _Measured,
    policy: FloatArray,
    task: Task,
    settings: Settings,
    notes: tuple[str, ...],
) -> Evaluation:
    fields: dict[str, Any] = {
        name: _checks.sealed(array) for name, array in found.states.items()
    }
    fields |= {f"start_{name}": float(x[0]) for name, x in found.start.items()}
    nowhere = _checks.sealed(np.full(task.n_states, np.nan))
    return Evaluation(
        **fields,
        occupancy=nowhere,
        occupancy_mcse=nowhere,
        start_values=_checks.frozen(found.start_values),
        n_draws=settings.n_networks,
        exact=False,
        n_endless=0,
        n_unsolved=0,
        n_retried=0,
        solver="quantile networks",
        variance_reduction=1.0,
        prior_share=float("nan"),
        notes=notes,
        seed=settings.seed,
        policy=policy,
        task=task,
    )
