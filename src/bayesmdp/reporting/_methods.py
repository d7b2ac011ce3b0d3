"""How it was done, in sentences that can be quoted, with what is needed to redo it."""

import platform
from importlib.metadata import version
from typing import Any

from bayesmdp._version import __version__
from bayesmdp.posterior import Ensemble, MixturePosterior, has_dirichlet_rows
from bayesmdp.reporting._actions import MAX_STATES
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
            _belief(inputs),
            _evaluation(inputs),
            _comparison(inputs),
            *_optimisation(inputs),
            _approximations(inputs),
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
    "Rewards are known, and states are given: the doubt does not hold that other "
    "states might have been defined.",
    "Probabilities are those of the model and the prior named here.",
]


def _belief(inputs: Inputs) -> str:
    belief = inputs.posterior
    if isinstance(belief, Ensemble):
        return (
            f"The belief about the dynamics is a finite set of {belief.n_models:,} "
            "models with given probabilities."
        )
    data = f"{belief.counts.total:,} logged transitions"
    least = (
        f" Policies may use a pair of state and action only if it was seen at least "
        f"{belief.min_count} times."
        if belief.min_count
        else ""
    )
    if isinstance(belief, MixturePosterior):
        return (
            f"The belief is a mixture of {belief.weights.size} posteriors, one for "
            f"each of several priors ({belief.prior!r}), given {data}.{least}"
        )
    kind = "Dirichlet distributions"
    if not has_dirichlet_rows(belief):
        kind = f"mixtures of {kind} over sets of possible next states"
    return (
        "The probabilities of next states of each pair of state and action have "
        f"independent {kind}: the prior, {belief.said_prior()}, and the counts of "
        f"{data}.{least}"
    )


def _evaluation(inputs: Inputs) -> str:
    best, discount = inputs.best, inputs.task.discount
    if best.exact:
        many = f"Each of the {best.n_draws:,} models"
        noise = "There is no Monte Carlo error."
    else:
        many = f"Each of {best.n_draws:,} draws from the posterior"
        noise = (
            "The figure after ± is the Monte Carlo standard error, which more draws "
            "would remove; it is no part of the doubt about the world."
        )
    return (
        f"{many} gives the mean and the variance of the return (discount {discount:g}) "
        "in closed form (Sobel 1982). By the law of total variance the variance of "
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
    return [
        "The optimised policy maximises the posterior mean of the value from the "
        f"start, by ascent from {len(result.starts)} starting policies "
        f"({', '.join(result.starts)}). {_judged(inputs)} Status: {result.status}."
    ]


def _judged(inputs: Inputs) -> str:
    if inputs.best.exact:
        return "It was learnt, chosen and judged on all models, exactly."
    return "It was learnt, chosen and judged on three separate streams of draws."


def _approximations(inputs: Inputs) -> str:
    if not has_dirichlet_rows(inputs.posterior) or inputs.task.live.size > MAX_STATES:
        return (
            "Values of single actions in the explorer are those of the mean model with "
            "values of later states from the draws; their doubt, and its attribution "
            "to pairs, are left out."
        )
    return (
        "Two parts are approximations: the attribution of doubt to pairs, and the "
        "values of single actions in the explorer. Both expand the value to first "
        "order around the mean model (Delage and Mannor 2010); both say how far the "
        "first order is from the draws."
    )


def _seeds(inputs: Inputs) -> dict[str, int]:
    found = {"comparison": inputs.best.seed}
    if inputs.optimisation is not None:
        found["optimisation"] = inputs.optimisation.seed
    if inputs.sensitivity is not None:
        found["sensitivity"] = inputs.sensitivity.seed
    return found
