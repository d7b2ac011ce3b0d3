"""Figures of the documentation, from records: they can be drawn again at any time."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

OURS, OTHER, FAINT, GREY, INK = "#1f6f8b", "#c0562f", "#b9bec4", "#7a8087", "#2b2f33"


def scaling_figure(record: dict[str, Any], path: Path) -> str:
    """Draw seconds a draw against states; return why not, where it cannot be."""
    if find_spec("matplotlib") is None:
        return "matplotlib is not installed (`make bench` does it)"
    if len(record["parts"].get("large", {}).get("sizes", [])) < 2:
        return "fewer than two sizes were measured"
    import matplotlib as mpl

    mpl.use("Agg")
    style = {
        "svg.hashsalt": "bayesmdp",  # the same record, the same file
        "svg.fonttype": "path",
        "font.size": 11,
        "axes.edgecolor": INK,
        "text.color": INK,
    }
    with mpl.rc_context(style):
        figure = _scaling(record)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else {})
    return ""


def _scaling(record: dict[str, Any]) -> Any:
    from matplotlib.figure import Figure

    found = record["parts"]["large"]
    n = [one["states"] for one in found["sizes"]]
    seconds = [one["seconds"] for one in found["sizes"]]
    lu_n = [point["states"] for point in found["dense"]]
    lu = [point["seconds"] for point in found["dense"]]
    (exponent,) = (
        row["measured"] for row in record["rows"] if row["unit"] == "exponent"
    )
    figure = Figure(figsize=(7.2, 4.6), layout="constrained")
    axes = figure.add_subplot()
    # Both references start at a measured point, so that only their slopes are guides.
    axes.plot([n[0], n[-1]], [seconds[0], seconds[0] * n[-1] / n[0]], "--", color=FAINT)
    far = 30_000
    axes.plot(
        [lu_n[-1], far], [lu[-1], lu[-1] * (far / lu_n[-1]) ** 3], ":", color=OTHER
    )
    axes.plot(lu_n, lu, "s-", color=OTHER, markersize=5)
    axes.plot(n, seconds, "o-", color=OURS, markersize=6, linewidth=2)
    axes.set(xscale="log", yscale="log")
    axes.set_xlabel("states (10 actions, 5 next states each)")
    axes.set_ylabel("seconds a draw: sampled and solved, one thread")
    top = max(seconds[-1], lu[-1]) * 8
    axes.set_ylim(min(*seconds, *lu) / 2.5, top)
    axes.set_xlim(lu_n[0] / 1.6, n[-1] * 2)
    at = [one for one in zip(n, seconds, strict=True) if one[0] <= 100_000][-1]
    ours = f"bayesmdp\nexponent {exponent:.2f}"
    _name(axes, ours, at, (-6, 14), OURS, "right")
    lu_name = "dense LU\n(dotted: as $n^3$)"
    _name(axes, lu_name, (lu_n[-1], lu[-1]), (-12, 2), OTHER, "right")
    half = n[len(n) // 2]
    linear = half, seconds[0] * half / n[0]
    _name(axes, "in proportion to size", linear, (16, -14), GREY)
    axes.grid(which="major", color="#e6e8ea", linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.tick_params(colors=INK, which="both")
    return figure


def _name(
    axes: Any,
    text: str,
    at: tuple[float, float],
    offset: tuple[float, float],
    colour: str,
    side: str = "left",
) -> None:
    """Name a line beside one of its points, in its colour: no legend to look up."""
    axes.annotate(text, at, offset, textcoords="offset points", color=colour, ha=side)
