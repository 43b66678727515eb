"""
A player that joins late
========================

A chain opens a new shop. Does it start from nothing, or from what the other shops have learned?
"""

import matplotlib.pyplot as plt
import numpy as np

import posse

plt.style.use("posse.figures.house")

# %%
# Nineteen shops play 400 rounds; then the twentieth joins and plays 100 rounds with them. ``trace`` keeps one run round
# by round, so we can look at the newcomer alone.
BEFORE, AFTER = 400, 100
problems = posse.generate.structured(count=60, players=20, arms=5, spread=0.1, seed=3)
late = posse.schedule.Late(BEFORE / (BEFORE + AFTER))  # the last player joins after this share of the rounds


def newcomers_regret(policy):
    """What the newcomer has lost after each of its rounds, [problem, round]."""
    lost = []
    for problem in problems:
        arms = posse.simulation.trace(problem, policy, BEFORE + AFTER, schedule=late).arms[BEFORE:, -1]
        lost.append(problem.gaps[-1][arms].cumsum())
    return np.array(lost)


# %%
# With PosseTS the new shop mostly shows the right offer from its first customer on. Ind-TS-V has the same model of
# rewards and does not look at other shops, so the newcomer tries every offer anew.
figure, axes = plt.subplots(figsize=(7.2, 3.2), layout="constrained")
rounds = np.arange(1, AFTER + 1)
for policy in (posse.IndTSV(), posse.PosseTS()):
    lost = newcomers_regret(policy)
    mean, half = lost.mean(axis=0), 1.96 * lost.std(axis=0, ddof=1) / np.sqrt(len(problems))
    axes.plot(rounds, mean, color=policy.look.color, label=policy.label)
    axes.fill_between(rounds, mean - half, mean + half, color=policy.look.color, alpha=0.2, linewidth=0)
axes.set(xlabel="customers of the new shop", ylabel="sales that it has lost", xlim=(1, AFTER), ylim=0)
axes.legend()
plt.show()
