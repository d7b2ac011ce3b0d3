"""
FrozenLake and Taxi: tables of Gymnasium
========================================

Gymnasium's toy environments have their dynamics as a table. ``from_gymnasium`` reads it
as a world with exact values; ``collect`` plays episodes and returns a log, as a user of
an environment without a table would. Here a policy for the frozen lake is learnt from
logs of random play, and judged by the table.
"""

import gymnasium
import matplotlib.pyplot as plt
import numpy as np

import bayesmdp as bm

# %%
# The table
# ---------
# Sixteen squares of slippery ice, four of them holes. The best policy reaches the goal
# with the value that textbooks print (discount 0.99).

env = gymnasium.make("FrozenLake-v1", is_slippery=True)
lake = bm.worlds.from_gymnasium(env, discount=0.99)
known = bm.policies.nominal(bm.Ensemble([lake.dynamics], lake.task))
optimum = float(lake.task.start @ lake.value(known))
print(f"{lake.task.n_states} squares, exact optimum {optimum:.4f}")

# %%
# Episodes of random play
# -----------------------
# Most fall into a hole within a few steps. From 50 to 5,000 episodes the posterior
# predicts the value of its own best policy, with an interval; the table has the truth.

rows = []
for n in (50, 200, 1000, 5000):
    part = bm.data.collect(env, None, n, seed=0)  # the beginning of the larger ones
    posterior = bm.fit(part, lake.task)
    policy = bm.policies.nominal(posterior)
    found = bm.evaluate(policy, posterior.draws(1000, seed=1))
    true = float(lake.task.start @ lake.value(policy))
    rows.append((n, found.start_value, *found.interval(), true))
    print(
        f"{n:5} episodes ({part.n_rows:6,} steps): predicted {found.start_value:.3f} "
        f"({rows[-1][2]:.3f} to {rows[-1][3]:.3f}), true {true:.3f}"
    )

n, predicted, low, high, true = np.transpose(rows)
fig, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
ax.errorbar(
    n, predicted, [predicted - low, high - predicted], fmt="o", label="predicted"
)
ax.plot(n, true, "kx", label="true value of the same policy")
ax.axhline(optimum, color="grey", linestyle="--", label="best of all")
ax.set_xscale("log")
ax.set_xlabel("episodes of random play")
ax.set_ylabel("value from the start")
ax.legend()
ax.set_title("FrozenLake: predicted and true value of the learnt policy")

# %%
# What a Gymnasium loop does with the policy
# ------------------------------------------
# The policy is an array of probabilities: any loop can follow it.

rng = np.random.default_rng(0)
wins = 0
for episode in range(500):
    state, _ = env.reset(seed=episode)
    over = False
    while not over:
        action = rng.choice(4, p=policy[state])
        state, reward, terminated, truncated, _ = env.step(int(action))
        over = terminated or truncated
    wins += reward > 0
share = wins / 500
print(f"goal reached in {share:.2f} ± {(share * (1 - share) / 500) ** 0.5:.2f} of 500")

# %%
# Taxi
# ----
# 500 states and the end, deterministic moves. Planning is instant; the value is that of
# a start drawn uniformly from all states in which the ride goes on.

taxi = bm.worlds.from_gymnasium("Taxi-v4", discount=0.99, start="uniform")
best = bm.policies.nominal(bm.Ensemble([taxi.dynamics], taxi.task))
print(f"{taxi.task.n_states} states, exact optimum ", end="")
print(f"{float(taxi.task.start @ taxi.value(best)):.4f}")
