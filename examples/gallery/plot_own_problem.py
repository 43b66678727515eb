"""
Your own problem
================

A problem is a table of mean rewards: a row for each player, a column for each arm. Here four clinics choose among
three treatments, and the fourth clinic is unlike the others. ``posse.Problem.from_csv`` reads such a table from a file.
"""

import matplotlib.pyplot as plt

import posse

plt.style.use("posse.figures.house")

clinics = ["north", "south", "west", "islands"]
treatments = ["A", "B", "C"]
problem = posse.Problem(
    [
        [0.70, 0.60, 0.40],
        [0.72, 0.62, 0.45],
        [0.68, 0.63, 0.38],
        [0.45, 0.65, 0.40],  # the islands do better with B
    ]
)
print(f"players differ by at most ε = {problem.epsilon:g}")

# %%
# ``simulate`` plays it as often as you like, here 50 times over 2,000 rounds, and counts who pulled what.
policies = [posse.PosseTS(), posse.IndTSV(), posse.NaiveAgg()]
result = posse.simulate(problem, policies, horizon=2000, replications=50)
share = result.pulls.mean(axis=(1, 2)) / 2000  # [policy, player, arm]

# %%
# A dark square is a treatment that a clinic chose often, and a frame is the clinic's best one. Naive-Agg pools all
# data and gives the islands what is best for the others. PosseTS shares and notices.
lost = result.final_regret.mean(axis=(1, 2))
figure, panels = plt.subplots(1, 3, figsize=(7.2, 2.6), layout="constrained", sharey=True)
for axes, policy, shown, regret in zip(panels, policies, share, lost, strict=True):
    axes.imshow(shown, cmap="Purples", vmin=0, vmax=1, aspect="auto")
    for row, best in enumerate(problem.means.argmax(axis=1)):
        axes.add_patch(plt.Rectangle((best - 0.5, row - 0.5), 1, 1, fill=False, linewidth=1.5))
        for column in range(3):
            color = "white" if shown[row, column] > 0.5 else "black"
            axes.text(column, row, f"{shown[row, column]:.0%}", ha="center", va="center", color=color)
    axes.set_xticks(range(3), treatments)
    axes.set_yticks(range(4), clinics)
    axes.set_title(f"{policy.label}: {regret:.0f} lost")
    axes.grid(False)
plt.show()
