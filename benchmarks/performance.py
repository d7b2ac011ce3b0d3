"""The record of `benchmarks.scale` for people to read: ``performance_tables.md``."""

from typing import Any

from benchmarks import cells, milliseconds
from benchmarks.tables import table

Record = dict[str, Any]


def performance_tables(record: Record) -> str:
    """Write what was measured as a page."""
    made = ", ".join(f"{what} {of}" for what, of in record["made_with"].items())
    load = f"; load before {record['load'][0]:.2g}" if record["load"] else ""
    return "\n".join(
        [
            "# What was measured",
            "",
            f"Written by `python -m benchmarks` ({made}{load}); the record is "
            "`benchmarks/results/scale.json`. One thread unless a row says otherwise, "
            "best of a few repeats, kernels compiled before; rivals ran in the same "
            "process on the same draws. [performance.md](performance.md) says what "
            "the numbers mean.",
            "",
            *_targets(record),
            *_draw(record),
            *_sizes(record),
            *_memory(record),
            *_left_out(record),
        ]
    )


def _targets(record: Record) -> list[str]:
    rows = [
        [
            *cells(row),
            row["rival"],
            f"{row['check']}: {'correct' if row['correct'] else 'WRONG'}",
        ]
        for row in record["rows"]
    ]
    header = ["work", "measured", "target", "", "rival in the same run", "value"]
    return ["## Targets", "", *table(header, rows)]


def _draw(record: Record) -> list[str]:
    """Say where the time of a draw goes."""
    found = record["parts"].get("clinical")
    if found is None:
        return []
    chain = found["solves"]["chain_entries"]
    works = [
        ("value + gradient, sparse", found["gradient"], chain),
        ("value + variance, sparse", found["variance"], found["variance"]["entries"]),
    ]
    ours = record["parts"].get("hierarchical")
    if ours is not None:
        works.append(("value + variance, default prior", ours, ours["entries"]))
    full = record["parts"].get("full-support")
    if full is not None:
        works.append(("value + variance, full support", full, full["entries"]))
    rows = []
    for name, of, entries in works:
        moved = of["products"] * entries * 12  # a probability and its column
        rows.append(
            [
                name,
                f"{1e3 * of['seconds']:.3g}",
                f"{1e3 * of['sampling_seconds']:.3g}",
                f"{of['entries']:,}",
                f"{of['products']:.0f}",
                f"{entries:,}",
                f"{of['products'] * entries / 1e6:.3g}",
                f"{moved / 1e6:.3g}",
            ]
        )
    header = ["a draw", "ms", "of which sampling, ms", "gammas", "products"]
    header += ["entries of a product", "million multiply-adds", "MB read by products"]
    return ["## Where the time of a clinical draw goes", "", *table(header, rows)]


def _sizes(record: Record) -> list[str]:
    found = record["parts"].get("large")
    if found is None:
        return []
    rivals = ("ours", "bicgstab", "gmres", "spsolve")
    rows = []
    for one in found["sizes"]:
        others = one["rivals"]
        rows.append(
            [
                f"{one['states']:,}",
                f"{milliseconds(one['seconds'])}",
                f"{one['products']:.0f}",
                f"{one['bound']:.0e}",
                *(
                    f"{milliseconds(others[name]['seconds'])}" if name in others else ""
                    for name in rivals
                ),
                f"{one['building_seconds']:.2g}",
                f"{one['peak_bytes'] / 1e9:.2g}",
            ]
        )
    header = ["states", "ms a draw", "products", "relative error at most"]
    header += ["solve alone: ours, ms", "scipy bicgstab", "scipy gmres"]
    header += ["scipy spsolve", "counts and fit, s", "peak memory, GB"]
    lu = [[f"{p['states']:,}", f"{milliseconds(p['seconds'])}"] for p in found["dense"]]
    return [
        "## Cost against size",
        "",
        "10 actions with 5 random next states each, discount 0.99, deterministic "
        "policy. Scipy's solvers get the matrix of the first draw ready made and run "
        "to a residual of 1e-10.",
        "",
        *table(header, rows),
        "Dense LU (LAPACK, one thread) and one solution, chains of the same shape:",
        "",
        *table(["states", "ms"], lu),
    ]


def _memory(record: Record) -> list[str]:
    """Say which step of a workload holds most."""
    works = {}
    if "full-support" in record["parts"]:
        works["716 states, full support"] = record["parts"]["full-support"]["peaks"]
    if "large" in record["parts"]:
        for one in record["parts"]["large"]["sizes"]:
            if one["states"] >= 100_000:
                works[f"{one['states']:,} states, sparse"] = one["peaks"]
    if not works:
        return []
    rows = [
        [name, ", ".join(f"{step} {n / 1e6:,.0f}" for step, n in peaks.items())]
        for name, peaks in works.items()
    ]
    header = ["workload", "most memory held in each step, MB"]
    return ["## Where the memory goes", "", *table(header, rows)]


def _left_out(record: Record) -> list[str]:
    if not record["skipped"]:
        return []
    return ["## Skipped", "", *(f"- {reason}" for reason in record["skipped"]), ""]
