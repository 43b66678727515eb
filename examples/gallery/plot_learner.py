"""
In your program: choose, observe
================================

``posse.Learner`` runs a policy inside your own program: ask for an arm, and report the reward when it comes.
"""

import random

import matplotlib.pyplot as plt
import numpy as np

import posse

plt.style.use("posse.figures.house")

# %%
# Six shops, three offers. Without a policy the learner takes PosseTS.
offers = ["nothing", "coupon", "free shipping"]
shops = ["Lyon", "Nice", "Lille", "Nantes", "Metz", "Brest"]
learner = posse.Learner(arms=offers, players=shops, seed=1)
decision = learner.choose("Lyon")
print(decision.arm, decision.propensity)  # the exact probability with which it was chosen
learner.observe(decision.id, 1.0)  # now, next week, twice, or never

# %%
# Customers are simulated here. Coupons sell best, but not in Brest. We write down how likely each shop's coupon is.
sells = {shop: [0.10, 0.20, 0.12] for shop in shops} | {"Brest": [0.12, 0.03, 0.20]}
chance = random.Random(1)
likely = {shop: [] for shop in shops}
for _ in range(400):
    decisions = learner.choose(shops)  # one customer in every shop
    sold = [chance.random() < sells[each.player][offers.index(each.arm)] for each in decisions]
    learner.observe(zip(decisions, sold, strict=True))
    for each in decisions:
        likely[each.player].append(each.probabilities["coupon"])

# %%
# Five shops learn from each other that coupons sell. Brest finds out by itself that it is different.
figure, axes = plt.subplots(figsize=(7.2, 3.0), layout="constrained")
for shop, path in likely.items():
    color = "#D55E00" if shop == "Brest" else "#0072B2"
    smooth = np.convolve(path, np.ones(30) / 30, mode="valid")  # the mean of 30 customers
    axes.plot(np.arange(len(smooth)) + 15, smooth, color=color, alpha=1 if shop == "Brest" else 0.5)
axes.text(395, 0.8, "the others", color="#0072B2", ha="right")
axes.text(395, 0.05, "Brest", color="#D55E00", ha="right")
axes.set(xlabel="customers of each shop", ylabel="probability of a coupon", xlim=(0, 400), ylim=(0, 1.02))
plt.show()
