"""What information is worth at clinical size: all pairs, time and memory."""

import os
import time
from typing import Any

import bayesmdp as bm
from benchmarks import Row, made_with
from benchmarks.clinical import MIN_COUNT, cohort, sparse
from benchmarks.tables import table
from benchmarks.worker import peak_bytes, work

_SECONDS, _BYTES = 60.0, 2e9


def measure(belief: str) -> dict[str, Any]:
    """Value information of every pair, in a process of its own."""
    counts, task = cohort()
    if belief == "sparse":
        posterior: bm.Posterior = sparse(counts, task)
    else:
        posterior = bm.fit(counts, task, min_count=MIN_COUNT)
    began, spent = time.perf_counter(), time.process_time()
    info = bm.value_of_information(posterior, threads=2)
    confirmed = info.confirmed[:, None] & (info.switch_evppi > 0)
    return {
        "seconds": time.perf_counter() - began,
        "processor_seconds": time.process_time() - spent,
        "peak_bytes": peak_bytes(),
        "pairs": int(info.available.sum()),
        "policies": len(info.names),
        "confirmed_states": int(info.confirmed.sum()),
        "evpi": info.evpi,
        "evpi_bound": info.evpi_bound,
        "approximation": info.approximation,
        "largest_switch_evppi": float(info.switch_evppi.max()),
        "error": float((info.switch_evppi_mcse / info.switch_evppi)[confirmed].mean()),
        "ordered": info.evpi <= info.evpi_bound
        and bool((info.evppi <= info.evpi + 1e-12).all()),
    }


def run() -> dict[str, Any]:
    """Measure both beliefs."""
    rows, found_by, load = [], [], os.getloadavg()[0]
    for belief in ("sparse", "hierarchical"):
        found = work("information", belief=belief)
        dirichlet = belief == "sparse"
        right = found["ordered"] and 0.2 < found["approximation"] < 5
        ratio = f"approximate over nested {found['approximation']:.2f}"
        check = f"EVPPI <= EVPI <= bound; {ratio}"
        name = f"all {found['pairs']} pairs, {belief}"
        target = _SECONDS if dirichlet else None
        given = check, right, f"{found['processor_seconds']:.0f} s of processors"
        rows.append(Row(name, found["seconds"], "s", "<=", target, *given))
        memory = f"memory, {belief}"
        rows.append(
            Row(memory, found["peak_bytes"] / 1e9, "GB", "<=", _BYTES / 1e9, *given[:2])
        )
        found_by.append({"belief": belief, **found})
    return {
        "problem": "716 states, 25 actions, 18,000 simulated patients; two threads",
        "made_with": made_with(),
        "rows": [row.as_record() for row in rows],
        "load": load,
        "table": found_by,
    }


def information_table(record: dict[str, Any]) -> str:
    """Write the record for ``docs/information.md``."""
    head = ["belief", "seconds", "processor seconds", "GB", "policies", "confirmed"]
    rows = [
        [
            x["belief"],
            f"{x['seconds']:.0f}",
            f"{x['processor_seconds']:.0f}",
            f"{x['peak_bytes'] / 1e9:.2f}",
            f"{x['policies']}",
            f"{x['confirmed_states']} states",
        ]
        for x in record["table"]
    ]
    made = ", ".join(f"{what} {of}" for what, of in record["made_with"].items())
    load = f"{record['load']:.1f} other processes wanted to run when it began"
    return "\n".join([*table(head, rows), f"{record['problem']}; {made}; {load}."])
