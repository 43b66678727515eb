"""
Ending an experiment with a guarantee
=====================================

``conclude`` says whether an experiment can end, and which arm to ship for whom. However often you look, at most 5 % of
experiments are ever told to ship a wrong arm.
"""

import matplotlib.pyplot as plt
import numpy as np

import posse
from posse.insight import conclude

plt.style.use("posse.figures.house")

# %%
# Three shops, three checkouts. Every arm keeps a share of at least 10 %: a policy that is sure no longer tries the
# other arms, and then nothing can be shown about them.
arms, shops = ["today", "one page", "express"], ["north", "south", "west"]
means = {"north": [0.10, 0.15, 0.45], "south": [0.15, 0.20, 0.50], "west": [0.15, 0.20, 0.50]}
learner = posse.Learner(posse.PosseTS(), arms, shops, floor=0.1, control="today", seed=2)
rng = np.random.default_rng(1)
looks = []
for customer in range(1, 601):
    for decision in learner.choose(shops):
        learner.observe(decision, rng.random() < means[decision.player][arms.index(decision.arm)])
    if customer % 60 == 0:
        looks.append(conclude(learner))
print(looks[-1].verdict)

# %%
# A band is an arm's interval; with probability 95 % it holds at every look. Once an arm is shown to be the best it
# stays shown, and the experiment can end there.
figure, axes = plt.subplots(figsize=(7.2, 3.4), layout="constrained")
answers = [look.answers for look in looks]
for arm, color in zip(arms, ("#999999", "#0072B2", "#D55E00"), strict=True):
    seen = [look.arm(arm) for look in looks]
    low, high = [each.low for each in seen], [each.high for each in seen]
    axes.fill_between(answers, low, high, color=color, alpha=0.15)
    axes.plot(answers, [each.mean for each in seen], color=color, marker="o", label=arm)
axes.axvline(looks[-1].since, color="#444444", linestyle="--")
axes.text(looks[-1].since, 0.95, f" ship {looks[-1].winner}")
axes.set(xlabel="rewards seen", ylabel="mean reward", ylim=(0, 1))
axes.legend(loc="upper right")
plt.show()
