"""
A diagnosis: how do players differ?
===================================

Sharing pays as long as players are alike. ``diagnose`` says from their data how they differ, for whom, and whether an
ε that somebody stated is broken.
"""

import numpy as np

import posse
from posse.insight import diagnose

# %%
# Twelve shops show one of three offers. Customers of the seventh shop do not care for banners; nobody knows that yet.
rng = np.random.default_rng(2)
offers, shops = ["banner", "coupon", "letter"], [f"shop {number + 1}" for number in range(12)]
means = np.array([0.62, 0.50, 0.30]) + rng.uniform(-0.05, 0.05, (12, 3))
means[6, 0] -= 0.28

learner = posse.Learner(posse.PosseTS(), offers, shops, floor=0.1, seed=1)
for _ in range(1200):
    decisions = learner.choose(shops)  # one customer in every shop
    sold = [rng.random() < means[shops.index(each.player), offers.index(each.arm)] for each in decisions]
    learner.observe(zip(decisions, sold, strict=True))

# %%
# Is it true that shops differ by at most ε = 0.1 on every offer? The alarm is guaranteed: the chance of ever raising a
# false one is at most 5 %, however often you look.
diagnosis = diagnose(learner, epsilon=0.1)
print(diagnosis.verdict)

# %%
# Every line is a shop's interval. The grey band is as wide as ε and lies where it touches most of them. PosseTS needs
# no ε and gave the seventh shop its coupons by itself.
diagnosis.figure()

# %%
# The difference between the two best offers, shop by shop:
diagnosis.effects_figure()
