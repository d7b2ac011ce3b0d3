"""Policies by a word, as the command line asks for them."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from bayesmdp import _checks
from bayesmdp._typing import FloatArray, Seed
from bayesmdp.errors import PolicyError
from bayesmdp.model import ALWAYS
from bayesmdp.policies._baselines import behaviour, constant, mle, nominal, uniform
from bayesmdp.policies._msbi import msbi
from bayesmdp.policies._second_order import second_order
from bayesmdp.posterior import Belief

if TYPE_CHECKING:
    from concurrent.futures import Executor

_NAMED: dict[str, Callable[..., FloatArray]] = {
    "behaviour": behaviour,
    "mle": mle,
    "nominal": nominal,
    "second_order": second_order,
    "msbi": msbi,
    "uniform": uniform,
}
#: What `named_policy` knows, besides.
POLICY_NAMES = tuple(_NAMED)


def named_policy(
    name: str,
    posterior: Belief,
    *,
    seed: Seed = 0,
    threads: int | None = None,
    executor: "Executor | None" = None,
) -> FloatArray:
    """Make a policy by its name.

    Parameters
    ----------
    name
        ``behaviour``, ``mle``, ``nominal``, ``second_order``, ``msbi`` or ``uniform``;
        or ``always:`` and an action, such as ``always:treat``.
    posterior
        What is believed.
    seed, threads, executor
        Of ``msbi``; the others draw nothing.

    Returns
    -------
    Array
        Policy ``[S, A]``.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> world = bm.worlds.synthetic(0)
    >>> posterior = bm.fit(world.sample(200, seed=0), world.task)
    >>> bm.policies.named_policy("uniform", posterior)[0].tolist()
    [0.2, 0.2, 0.2, 0.2, 0.2]
    """
    if isinstance(name, str) and name.startswith(ALWAYS):
        action, task = name.removeprefix(ALWAYS), posterior.task
        numbered = task.action_labels is None and action.isdecimal()
        return constant(posterior, int(action) if numbered else action)
    if name not in _NAMED:
        hint = _checks.did_you_mean(name, _NAMED)
        raise PolicyError(
            f"`name` must be one of {', '.join(_NAMED)}, or {ALWAYS}ACTION; got "
            f"{name!r:.40}{hint}."
        )
    if name == "msbi":
        return msbi(posterior, seed=seed, threads=threads, executor=executor)
    return _NAMED[name](posterior)
