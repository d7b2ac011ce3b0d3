"""Figures 3 and 4 as fractions (appendix F, figures 10 and 11).

As published, a difference is divided by the mean value of the method itself, of the
same data set size: ``F = mean(difference) / mean(value)`` over worlds. It is a
ratio of means, with the standard error of ``(difference - F value) / mean(value)``.

Such a fraction depends on where rewards have their zero: 1 more in every state adds
``1 / (1 - discount)`` to every value and nothing to any difference. Beside it stands
the difference as a share of what the method gains over the uniform random policy,
which does not.
"""

from typing import Any

from studies import synthetic_view as view
from studies.study import Record, Study
from studies.synthetic_data import DISCOUNT, PAIRS, REWARD
from studies.synthetic_runs import (
    ADAM,
    EVEN,
    GRADIENT,
    MLE,
    NOMINAL,
    OURS,
    jobs,
    work,
)
from studies.synthetic_view import Gaps, Mean, columns, gaps

_KEYS = {"truth": "true value", "posterior": "posterior value"}
# What differences are fractions of.
_VALUE, _SHIFTED, _GAIN = "value", "value, were the smallest reward 0", "gain"
_SHIFT = -min(REWARD) / (1 - DISCOUNT)  # of values, were the smallest reward 0


def whole(records: list[Record], method: str, key: str, unit: str) -> Gaps:
    """Return what a difference is a fraction of, world by world."""
    if unit == _GAIN:
        return gaps(records, method, EVEN, key)
    shift = _SHIFT if unit == _SHIFTED else 0.0
    return {k: x + shift for k, x in columns(records, method, key).items()}


def fraction(
    records: list[Record], method: str, other: str, key: str, unit: str
) -> dict[int, Mean]:
    """Return a ratio of means over worlds in per cent, with its error, by visits."""
    of, difference = (
        whole(records, method, key, unit),
        gaps(records, method, other, key),
    )
    found = {}
    for k, x in difference.items():
        ratio = x.mean() / of[k].mean()
        found[k] = Mean.of(100 * (ratio + (x - ratio * of[k]) / of[k].mean()))
    return found


def _tell(records: list[Record]) -> str:
    parts = [f"Fractions in per cent; {view.note(records)}."]
    parts += [
        _table(records, method, key) for key in _KEYS for method in (GRADIENT, OURS)
    ]
    return "\n\n".join([*parts, _verdict(records)])


def _table(records: list[Record], method: str, key: str) -> str:
    others = view.RIVALS
    value = columns(records, method, key)
    parts, shares = (
        [fraction(records, method, other, key, unit) for other in others]
        for unit in (_VALUE, _GAIN)
    )
    lines = [
        f"**{method}, {_KEYS[key]}**: difference in per cent of the method's mean "
        "value (in brackets: of its gain over the uniform random policy)\n",
        f"| transitions | mean value | {' | '.join(f'minus {x}' for x in others)} |",
        f"|---|---|{'---|' * len(others)}",
    ]
    for k, values in value.items():
        cells = [f"{x[k]} ({y[k]})" for x, y in zip(parts, shares, strict=True)]
        mean = Mean.of(values)
        lines.append(f"| {PAIRS * k} | {mean} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _verdict(records: list[Record]) -> str:
    """Say whom fractions favour with the fewest data, and whether they mean much."""
    others = (MLE, NOMINAL, ADAM)  # of the paper
    value = columns(records, GRADIENT, "posterior")
    first = min(value)
    parts, shifted, shares = (
        [fraction(records, GRADIENT, x, "posterior", unit)[first] for x in others]
        for unit in (_VALUE, _SHIFTED, _GAIN)
    )
    unsure = [PAIRS * k for k, x in value.items() if not Mean.of(x).above]
    verdict = view.told(shares)
    if verdict == "confirmed":
        verdict += (
            " with a caveat: the advantage is there, its size as a fraction depends on "
            "the zero of rewards"
        )
        if unsure:
            sizes = ", ".join(str(n) for n in unsure)
            verdict += (
                f", and has no meaning where the mean value is not above 0 ({sizes})"
            )

    def list_of(found: list[Mean]) -> str:
        return ", ".join(f"{x} %" for x in found)

    return (
        "**Verdict:** the paper shows the advantage of the gradient policy as a "
        "fraction of its value, largest with few data. Measured with "
        f"{PAIRS * first} transitions, posterior, minus {', '.join(others)}: "
        f"{list_of(parts)}; were the smallest reward 0: {list_of(shifted)}; as a share "
        f"of the gain over the uniform random policy: {list_of(shares)}: {verdict}."
    )


def _plot(records: list[Record]) -> dict[str, Any]:
    """Fractions of values, as published, and of gains over the uniform policy."""
    return {
        "relative": _figure(records, _VALUE, "% of the method's value"),
        "relative_gain": _figure(
            records, _GAIN, "% of its gain over the uniform random policy"
        ),
    }


def _figure(records: list[Record], unit: str, said: str) -> Any:
    figure, axes = view.panels(records, 2)
    turned = False
    for row, key, band in zip(axes, _KEYS, ("error", "deviation"), strict=True):
        row[0].set_ylabel(f"{_KEYS[key]} difference,\n{said}\n(band: standard {band})")
        one = {x: whole(records, x, key, unit) for x in view.METHODS}
        for axis, other in zip(row, view.RIVALS, strict=True):
            of = {}
            for method, mean in one.items():
                found = gaps(records, method, other, key)
                of[method] = {k: 100 * x / mean[k].mean() for k, x in found.items()}
            view.both(axis, of, band)
            turned |= _mark_turned(axis, of, one)
    note = (
        "bands: above, standard errors of the means; below, standard deviations over "
        "worlds"
    )
    if turned:
        note += (
            "\nhollow: the method's mean value is below 0, which turns the sign: "
            "there above the line is behind, below it ahead"
        )
    view.legend(figure, axes[0, 0], said=note)
    return figure


def _mark_turned(axis: Any, of: dict[str, Gaps], one: dict[str, Gaps]) -> bool:
    """Mark fractions of something negative; return whether there are any."""
    turned = False
    for method, found in of.items():
        at = [k for k in found if one[method][k].mean() < 0]
        axis.plot(
            [PAIRS * k for k in at],
            [found[k].mean() for k in at],
            "o",
            color=view.COLOURS[method],
            markerfacecolor="white",
            markersize=6,
            zorder=3,
        )
        turned |= bool(at)
    return turned


STUDY = Study(
    "relative",
    "Figures 10 and 11: figures 3 and 4 as fractions",
    jobs,
    work,
    _tell,
    _plot,
)
