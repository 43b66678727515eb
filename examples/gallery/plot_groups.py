"""
Groups of players
=================

Players may come in groups that nobody told you about: shops in cities and shops in villages. Who should learn from
whom?
"""

import matplotlib.pyplot as plt

import posse

plt.style.use("posse.figures.house")

# %%
# Thirty players in three groups. Players of one group are nearly alike, and groups have nothing in common. No policy
# is told who belongs where.
problem = posse.generate.structured(players=30, arms=8, groups=3, spread=0.04, seed=29)[0]
policies = [posse.PosseTS(), posse.IndTSV(), posse.NaiveAgg()]
result = posse.simulate(problem, policies, horizon=500, replications=20, checkpoints=1)
share = result.pulls.mean(axis=(1, 2)) / 500

# %%
# Each row is a player, and white lines separate the groups. On the left are the true mean rewards; the others show how
# often each arm was pulled. PosseTS finds each group's arm. Naive-Agg pulls one arm for everybody.
figure, panels = plt.subplots(1, 4, figsize=(7.2, 3.2), layout="constrained", sharey=True)
lost = result.final_regret.mean(axis=(1, 2))
titles = [f"{policy.label}\n{regret:,.0f} lost" for policy, regret in zip(policies, lost, strict=True)]
for axes, title, table in zip(panels, ["mean rewards", *titles], [problem.means, *share], strict=True):
    axes.imshow(table, cmap="Greys" if table is problem.means else "Purples", vmin=0, vmax=1, aspect="auto")
    axes.set(title=title, xlabel="arm")
    axes.set_xticks(range(8), range(1, 9))
    axes.grid(False)
    for player in range(1, 30):
        if problem.groups[player] != problem.groups[player - 1]:
            axes.axhline(player - 0.5, color="white", linewidth=2)
panels[0].set(ylabel="player", yticks=[0, 9, 19, 29], yticklabels=[1, 10, 20, 30])
plt.show()
