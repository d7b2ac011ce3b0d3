"""How it was done, in sentences that can be quoted, with what is needed to redo it."""

import platform
from importlib.metadata import version
from typing import Any

from bayesmdp._version import __version__
from bayesmdp.optimisation import PosteriorMean
from bayesmdp.reporting._inputs import Inputs

_PAPER = (
    "Valdettaro and Faisal (2024). Offline Bayesian Aleatoric and Epistemic "
    "Uncertainty Quantification and Posterior Value Optimisation in Finite-State MDPs. "
    "Proceedings of the 40th Conference on Uncertainty in Artificial Intelligence."
)
_SOBEL = (
    "Sobel (1982). The variance of discounted Markov decision processes. Journal of "
    "Applied Probability 19(4), 794-802."
)
_DELAGE = (
    "Delage and Mannor (2010). Percentile optimization for Markov decision processes "
    "with parameter uncertainty. Operations Research 58(1), 203-213."
)
_DEARDEN = (
    "Dearden, Friedman and Andre (1999). Model based Bayesian exploration. "
    "Proceedings of the 15th Conference on Uncertainty in Artificial Intelligence."
)


def methods_section(inputs: Inputs) -> dict[str, Any]:
    """Say how the numbers came about."""
    return {
        "paragraphs": [
            inputs.posterior.describe(),
            _evaluation(inputs),
            _comparison(inputs),
            *_optimisation(inputs),
            _approximations(),
        ],
        "assumptions": _ASSUMPTIONS,
        "references": [_PAPER, _SOBEL, _DELAGE, _DEARDEN],
        "versions": {
            "bayesmdp": __version__,
            "Python": platform.python_version(),
            **{name: version(name) for name in ("numpy", "scipy", "numba", "plotly")},
        },
        "seeds": _seeds(inputs),
    }


_ASSUMPTIONS = [
    "The state is all that matters for what happens next (the Markov property).",
    "What was logged is what would happen: no unmeasured cause decided both the action "
    "and the outcome.",
    "Rewards are known, and states are given: the uncertainty does not hold that other "
    "states might have been defined.",
    "Probabilities are those of the model and the prior named here.",
]


def _evaluation(inputs: Inputs) -> str:
    best = inputs.best
    many = f"Each of {best.n_draws:,} draws from the posterior"
    if best.exact:
        many = f"Each of the {best.n_draws:,} models"
    noise = "There is no Monte Carlo error."
    if not best.exact or best.start_total_sd_mcse:
        noise = (
            "The figure after ± is the Monte Carlo standard error, which more draws "
            "would remove; it is no part of the uncertainty about the dynamics."
        )
    what, how = "the return", "in closed form (Sobel 1982)"
    if inputs.task.horizon is not None:
        how = "by one product per cycle, exactly"
    if inputs.task.criterion == "average":
        what, how = "the reward of a step in the long run", "in closed form"
    return (
        f"{many} gives the mean and the variance of {what} ({inputs.task.said_time}) "
        f"{how}. By the law of total variance the variance of "
        "the mean over draws is the epistemic part, and the mean of the variance the "
        "aleatoric part (Valdettaro and Faisal 2024, Algorithm 1). A random start "
        f"counts as chance. {noise}"
    )


def _comparison(inputs: Inputs) -> str:
    return (
        f"All {len(inputs.rows)} policies meet the same draws, so that differences are "
        "paired. A policy's probability of being better is the share of draws in which "
        f"its value is above that of “{inputs.reference}”; a tie is not better."
    )


def _optimisation(inputs: Inputs) -> list[str]:
    result = inputs.optimisation
    if result is None:
        return []
    what = "the posterior mean of the value from the start"
    if result.objective != repr(PosteriorMean()):
        what = f"{result.objective} of the values from the start over the posterior"
    return [
        f"The optimised policy maximises {what}, by ascent from {len(result.starts)} "
        f"starting policies ({', '.join(result.starts)}). {_judged(inputs)} Status: "
        f"{result.status}."
    ]


def _judged(inputs: Inputs) -> str:
    if inputs.best.exact:
        return "It was learnt, chosen and judged on all models, exactly."
    return "It was learnt, chosen and judged on three separate streams of draws."


def _approximations() -> str:
    return (
        "One part is an approximation: the attribution of epistemic uncertainty to "
        "pairs, where it is shown, expands the value to first order around the mean "
        "model (Delage and Mannor 2010), and says how far that is from the draws."
    )


def _seeds(inputs: Inputs) -> dict[str, int]:
    found = {"comparison": inputs.best.seed}
    if inputs.optimisation is not None:
        found["optimisation"] = inputs.optimisation.seed
    if inputs.prior_sensitivity is not None:
        found["prior_sensitivity"] = inputs.prior_sensitivity.seed
    return found
