"""
A power curve: how long until it is shown?
==========================================

Which arm is the best may be clear to the policy long before it is *shown*, with a bound on the chance of being wrong.
How many decisions does that take? It depends on how large the difference is, and on the least share of every arm.
"""

import matplotlib.pyplot as plt
import numpy as np

import posse
from posse.insight import conclude

plt.style.use("posse.figures.house")
DECISIONS, EXPERIMENTS = 1500, 12


# %%
# One experiment: two arms, one better by ``effect``. ``conclude`` may look after every reward; it says after how many
# the best arm was shown, or that it was not.
def shown_after(effect, floor, seed):
    """After how many rewards the better arm is shown to be better; infinity if it is not within the experiment."""
    learner = posse.Learner(posse.PosseTS(), ["old", "new"], ["shop"], floor=floor, seed=seed)
    rng = np.random.default_rng(seed)
    for _ in range(DECISIONS):
        decision = learner.choose("shop")
        learner.observe(decision, rng.random() < 0.4 + effect * (decision.arm == "new"))
    found = conclude(learner)
    return found.since if found.winner == "new" else np.inf


# %%
# The share of experiments in which the better arm is shown by then. Larger least shares (``floor``) show it sooner,
# and cost more rewards on the way. Twelve experiments make rough lines; take more for your own.
figure, axes = plt.subplots(figsize=(7.2, 3.2), layout="constrained")
for effect, color in ((0.3, "#0072B2"), (0.2, "#D55E00")):
    for floor, line in ((0.2, "-"), (0.05, ":")):
        ends = np.sort([shown_after(effect, floor, seed) for seed in range(EXPERIMENTS)])
        power = np.searchsorted(ends, np.arange(DECISIONS), side="right") / EXPERIMENTS
        axes.plot(power, color=color, linestyle=line, label=f"better by {effect}, least share {floor}")
axes.set(xlabel="decisions", ylabel="shown by then", xlim=(0, DECISIONS), ylim=(0, 1.02))
axes.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
figure.legend(loc="outside upper center", ncols=2)
plt.show()
