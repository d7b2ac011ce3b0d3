"""Tables and the picture of the study of beliefs, and its page of the documentation.

``python -m studies.beliefs_page reproduced/beliefs`` writes ``docs/beliefs.md`` and its
picture from the results of a run.
"""

from pathlib import Path
from typing import Any

import click
import numpy as np

from bayesmdp._typing import FloatArray
from studies.means import COLOURS, fixed, mean_and_error, percent
from studies.paired import sign
from studies.study import Record

REFERENCE, EVIDENCE = "sparse, death", "evidence"
_ABOUT = """\
`python -m studies beliefs --jobs 2`, in a checkout, simulates cohorts from two models \
whose true values are known exactly: ICU-Sepsis, and one of [vital \
signs](../studies/vitals_simulator.py) in the structure of Oberst and Sontag (2019), \
in which clinicians choose the best action and, with probability 0.3, any. The \
default prior and the sparse one learn from 10 cohorts of each size, other priors \
from 2. It can be stopped and resumed; `--quick` takes a minute, on \
other cohorts than those that judge. \
`python -m studies.beliefs_page reproduced/beliefs` writes this page.

- *Chosen policy*: the nominal one of pairs with 5 visits or more, discount 0.999. \
*Predicted - true* is its posterior mean value less its value in the true model.
- *Clinicians*: logged action frequencies, all logged pairs, logged starts. Predicted \
value less the mean return of the same patients (*observed*), and less the true value.
- *Covered*: 90 % posterior intervals that hold the true value.
- *Held-out*: learnt from four fifths of the patients of some cohorts. Log density per \
transition of the others (next states that were not observed from a state are one \
event), with the share of transitions that have no mass, which the mean leaves out; \
and clinicians' predicted value less the others' mean return.
- *CPU*: seconds for fits and the nominal policy.

All numbers are means ± standard errors over cohorts. Both models are simulators: they \
judge methods, not treatments.
"""


def tell(records: list[Record]) -> str:
    """Tables by simulator and size, and what they come to."""
    parts = []
    for name in _in_order(records, "simulator"):
        here = [x for x in records if x["simulator"] == name]
        parts += [f"## {name}", _glance(here)]
        parts += [_table(here, size) for size in sorted({x["size"] for x in here})]
    return "\n\n".join([*parts, _verdict(records)])


def _in_order(records: list[Record], key: str) -> list[Any]:
    """Different values, in the order in which they come."""
    return list(dict.fromkeys(x[key] for x in records))


def _column(rows: list[Record], key: str) -> FloatArray:
    """Values of a field over cohorts, in their order."""
    rows = sorted((x for x in rows if key in x), key=lambda x: int(x["cohort"]))
    return np.array([x[key] for x in rows], dtype=np.float64)


def _gap(rows: list[Record], one: str, other: str) -> FloatArray:
    """Return the difference of two fields, cohort by cohort."""
    return _column(rows, one) - _column(rows, other)


def _of(records: list[Record], size: int, prior: str) -> list[Record]:
    return [x for x in records if x["size"] == size and x["prior"] == prior]


def _share(rows: list[Record], key: str) -> str:
    found = _column(rows, key)
    return f"{int(found.sum())} of {found.size}"


def _glance(records: list[Record]) -> str:
    """All sizes together, the least mean error of prediction first."""
    sizes = sorted({x["size"] for x in records})
    lines = []
    for prior in _in_order(records, "prior"):
        of = [_of(records, size, prior) for size in sizes]
        every = [x for rows in of for x in rows]
        misses = [
            float(np.mean([abs(_gap(x, f"{name}_predicted", key).mean()) for x in of]))
            for name, key in (("chosen", "chosen_true"), ("behaviour", "observed"))
        ]
        cells = [
            prior,
            *(f"{x:.4f}" for x in misses),
            _share(every, "chosen_covered"),
            _share(every, "behaviour_covered"),
        ]
        lines.append((misses[0], f"| {' | '.join(cells)} |"))
    return "\n".join(
        [
            "| prior | chosen policy: mean over sizes of the absolute bias | "
            "clinicians' | chosen covered | clinicians covered |",
            "|---|---|---|---|---|",
            *(line for _, line in sorted(lines, key=lambda x: x[0])),
        ]
    )


def _table(records: list[Record], size: int) -> str:
    rows = [x for x in records if x["size"] == size]
    numbers = sorted({x["cohort"] for x in rows})
    held = sorted({x["cohort"] for x in rows if "held_out_return" in x})
    reference = _of(rows, size, REFERENCE)
    lines = [
        f"**{size:,} patients**, cohorts {numbers[0]} to {numbers[-1]} (held-out: "
        f"{len(held)} of them); clinicians' true value "
        f"{rows[0]['clinicians_value']:.4f}\n",
        "| prior | predicted | true | predicted - true | covered | true - sparse's | "
        "clinicians: predicted - observed | predicted - true | covered | "
        "held-out log density | held-out return: predicted - observed | CPU |",
        "|---" * 12 + "|",
    ]
    for prior in _in_order(rows, "prior"):
        of = _of(rows, size, prior)
        cells = [
            prior,
            fixed(_column(of, "chosen_predicted")),
            fixed(_column(of, "chosen_true")),
            fixed(_gap(of, "chosen_predicted", "chosen_true")),
            _share(of, "chosen_covered"),
            fixed(_against(of, reference, "chosen_true")),
            fixed(_gap(of, "behaviour_predicted", "observed")),
            fixed(_gap(of, "behaviour_predicted", "behaviour_true")),
            _share(of, "behaviour_covered"),
            *_held_out(of),
            f"{_column(of, 'seconds_fit').mean():.1f} s",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _against(rows: list[Record], reference: list[Record], key: str) -> FloatArray:
    """Differences to another prior on the same cohorts."""
    other = {x["cohort"]: x[key] for x in reference}
    return np.array([x[key] - other[x["cohort"]] for x in rows])


def _held_out(rows: list[Record]) -> list[str]:
    """Log density with the share that has no mass, and the error of the return."""
    density = _column(rows, "held_out_log_density")
    if not density.size:
        return ["", ""]
    said, none = fixed(density, 3), float(_column(rows, "held_out_no_mass").mean())
    said += f" ({percent(none)} without mass)" if none else ""
    return [said, fixed(_gap(rows, "held_out_predicted", "held_out_return"))]


def _verdict(records: list[Record]) -> str:
    """Say whether the sparse prior predicts less, and its policies differ."""
    name = _in_order(records, "simulator")[0]
    here = [x for x in records if x["simulator"] == name]
    size = max(x["size"] for x in here)
    both = _of(here, size, EVIDENCE), _of(here, size, REFERENCE)
    predicted, true = (
        _against(*both, key) for key in ("chosen_predicted", "chosen_true")
    )
    word = "not confirmed"
    if sign(predicted) > 0:
        word = "confirmed"
        if sign(true) == 0:
            word += " with a caveat, for the two true values cannot be told apart"
    ranges = [
        [_column(_of(here, size, p), key).mean() for p in _in_order(here, "prior")]
        for key in ("chosen_predicted", "chosen_true")
    ]
    said = [f"{min(x):.3f} to {max(x):.3f}" for x in ranges]
    return (
        "**Verdict:** the paper says that values and policies depend on the prior, "
        f"with the sparse one more conservative. With {size:,} patients of {name} its "
        f"evidence-selected prior predicts {fixed(predicted)} more than the sparse one "
        f"for its own policy, whose true value is {fixed(true)} more; over all priors "
        f"predicted values go from {said[0]}, true values from {said[1]}; told apart "
        f"at three standard errors: {word}."
    )


def plot(records: list[Record]) -> dict[str, Any]:
    """Predicted (filled) and true value (open) of each prior's policy."""
    from matplotlib.figure import Figure

    names = _in_order(records, "simulator")
    sizes = sorted({x["size"] for x in records})
    priors = _in_order(records, "prior")
    wide, high = 1.8 + 2.6 * len(sizes), 0.9 + (0.7 + 0.24 * len(priors)) * len(names)
    figure = Figure(figsize=(max(wide, 5.0), high), layout="constrained")
    axes = figure.subplots(
        len(names), len(sizes), squeeze=False, sharey=True, sharex="row"
    )
    for line, name in zip(axes, names, strict=True):
        here = [x for x in records if x["simulator"] == name]
        for axis, size in zip(line, sizes, strict=True):
            if not any(x["size"] == size for x in here):
                axis.set_axis_off()
                continue
            for place, prior in enumerate(priors):
                _pair(axis, _of(here, size, prior), place)
            axis.axvline(here[0]["clinicians_value"], color="grey", linewidth=0.8)
            axis.set_title(f"{name}, {size:,} patients", fontsize=9)
            axis.set_yticks(range(len(priors)), priors, fontsize=8)
    axes[0, 0].invert_yaxis()  # of all panels
    axes[0, 0].legend(fontsize=7, loc="lower left")
    figure.supxlabel(
        "value of the chosen policy (line: clinicians' true value)", fontsize=9
    )
    return {"beliefs": figure}


def _pair(axis: Any, rows: list[Record], place: int) -> None:
    """Draw a prior's line: where its policy was predicted to be, and where it is."""
    found = [
        mean_and_error(_column(rows, key))
        for key in ("chosen_predicted", "chosen_true")
    ]
    axis.plot([x for x, _ in found], [place] * 2, color=COLOURS[0], linewidth=0.8)
    looks = (("predicted", COLOURS[0]), ("true", "white"))
    for (mean, error), (label, inside) in zip(found, looks, strict=True):
        axis.errorbar(
            mean,
            place,
            xerr=np.nan_to_num(error),
            marker="o",
            markersize=5,
            markerfacecolor=inside,
            color=COLOURS[0],
            linestyle="none",
            label=label if place == 0 else None,
        )


def write_page(run: Path, docs: Path) -> None:
    """Write the page and its picture from the summary of a run."""
    summary = (run / "summary.md").read_text(encoding="utf-8")
    page = [
        "# Beliefs: predicted and true values",
        _ABOUT.rstrip(),
        "![Predicted and true values by prior and size](pictures/beliefs.png)",
        summary.split("\n\n", 1)[1],  # without its own title
    ]
    (docs / "beliefs.md").write_text("\n\n".join(page), encoding="utf-8")
    (docs / "pictures" / "beliefs.png").write_bytes((run / "beliefs.png").read_bytes())


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("run", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--docs",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=Path("docs"),
    show_default=True,
    help="Where the page goes.",
)
def main(run: Path, docs: Path) -> None:
    """Write docs/beliefs.md from RUN, such as reproduced/beliefs."""
    write_page(run, docs)


if __name__ == "__main__":
    main(prog_name="python -m studies.beliefs_page")
