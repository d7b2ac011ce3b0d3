"""
Many machines with Dask
=======================

Every call that sweeps draws takes an executor, and a draw is a pure function of its
number. So a cluster gives the same result to the bit as one thread, however many
machines there are. Here the cluster has two processes on one machine; for a real one,
give ``Client`` the address of its scheduler.
"""

import importlib.util

import matplotlib.pyplot as plt

import bayesmdp as bm

# %%
# A belief
# --------
# A small one, to show how it is done; a cluster pays from some hundred states on.

if __name__ == "__main__":  # a new process imports this file
    world = bm.worlds.synthetic(0, 60, 4, discount=0.98)
    posterior = bm.fit(world.sample(3000, seed=0), world.task)
    policy = bm.policies.nominal(posterior)
    draws = posterior.draws(2000, seed=0)
    alone = bm.evaluate(policy, draws, threads=1)
    print(f"one thread:  {alone.start_value:.15f}")

# %%
# The same on a cluster
# ---------------------
# Skipped where Dask is not installed (``pip install "bayesmdp[dask]"``).

if __name__ == "__main__" and importlib.util.find_spec("distributed"):
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
        client.get_executor() as executor,
    ):
        there = bm.evaluate(policy, draws, executor=executor, threads=2)
    print(f"two workers: {there.start_value:.15f}")
    print("the same to the bit:", there.start_value == alone.start_value)

# %%
# What was computed
# -----------------
# Value of the policy in each draw: what the data leave open.

if __name__ == "__main__":
    fig, ax = plt.subplots(figsize=(7, 3), layout="constrained")
    ax.hist(alone.start_values, bins=60)
    ax.axvline(float(world.task.start @ world.value(policy)), color="black")
    ax.set_xlabel("value from the start in each of 2,000 draws (line: true value)")
    ax.set_ylabel("draws")
    ax.set_title("Value of the policy over the posterior")

# %%
# MPI, processes, and when it pays: :doc:`/clusters`.
