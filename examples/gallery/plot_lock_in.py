"""
Lock-in: what a guarantee is for
================================

Sharing can go wrong for a player who is unlike all others: they are so sure of themselves that it never tries its own
best arm. Such a player is *locked in*. This is the limit of PosseTS, and the reason for RobustPosseTS.
"""

import matplotlib.pyplot as plt
import numpy as np

import posse

plt.style.use("posse.figures.house")

# %%
# A hundred players. For 99 of them the first arm is the best; for one it is the second, which is bad for all others.
means = np.tile([0.5, 0.3, 0.3], (100, 1))
means[0, 1] = 0.7
problem = posse.Problem(means)

# %%
# Two policies that share, one with a guarantee for players that differ by at most ε = 0.4; and one that learns alone.
ROUNDS, RUNS = 2000, 40
policies = [posse.PosseTS(), posse.RobustPosseTS(0.4, rounds=ROUNDS), posse.IndTSV(), posse.NaiveAgg()]
result = posse.simulate(problem, policies, ROUNDS, replications=RUNS, checkpoints=1)
locked = result.lock_ins()[:, 0]  # how many players gave a bad arm 90 % of their late pulls, [policy, run]

# %%
# PosseTS loses least in all, but in two runs of three the odd player never finds its arm. With RobustPosseTS that
# hardly ever happens, and everybody pays for it.
figure, (left, right) = plt.subplots(1, 2, figsize=(7.2, 2.6), layout="constrained")
names, colors = [policy.name for policy in policies], [policy.look.color for policy in policies]
left.bar(names, (locked > 0).mean(axis=1), color=colors)
left.set(title="runs in which a player is locked in", ylim=(0, 1.15))
left.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
right.bar(names, result.final_regret[:, 0].mean(axis=1), color=colors)
right.set(ylim=(0, 1500), title=f"regret of all after {ROUNDS:,} rounds")
for axes in (left, right):
    axes.tick_params(axis="x", labelrotation=20)
    axes.bar_label(axes.containers[0], fmt="{:.0%}" if axes is left else "{:,.0f}")
plt.show()
