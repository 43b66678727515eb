"""
What sharing is worth: more players, less to learn
==================================================

A player who learns alone pays for its own lessons. Players who share pay together, so the more of them there are, the
less each one pays.
"""

import matplotlib.pyplot as plt
import numpy as np

import posse

plt.style.use("posse.figures.house")

# %%
# PosseTS beside Ind-TS-V, which models rewards in the same way and learns alone, with 1 to 64 players. Players are
# alike up to a spread of 0.05 in their mean rewards on each arm.
counts = [1, 2, 4, 8, 16, 32, 64]
policies = [posse.PosseTS(), posse.IndTSV()]
lost = []  # by each player: the mean over problems and its standard error, for every policy
for players in counts:
    problems = posse.generate.structured(count=max(20, 200 // players), players=players, arms=8, seed=1)
    result = posse.simulate(problems, policies, horizon=1000, checkpoints=1)
    regret = result.final_regret[:, :, 0] / players
    lost.append([regret.mean(axis=1), regret.std(axis=1, ddof=1) / np.sqrt(len(problems))])
mean, error = np.array(lost).transpose(1, 2, 0)

# %%
# With one player there is nobody to share with, and the two do the same.
figure, axes = plt.subplots(figsize=(7.2, 3.4), layout="constrained")
for policy, height, half in zip(policies, mean, 1.96 * error, strict=True):
    axes.errorbar(counts, height, half, color=policy.look.color, marker="o", capsize=2, label=policy.label)
axes.fill_between(counts, *mean, color=policies[0].look.color, alpha=0.1)
axes.annotate("what sharing is worth", (14, mean[:, 4].mean()), color=policies[0].look.color)
axes.set_xscale("log", base=2)
axes.set_xticks(counts, counts)
axes.set(xlabel="players, M", ylabel="rewards that each player\nloses in 1,000 rounds", ylim=0)
axes.legend()
plt.show()
