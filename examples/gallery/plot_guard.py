"""
A guard: how soon is harm noticed?
==================================

An offer may sell well and be sent back often. A guard watches such an outcome after every value, and raises an alarm
once the data shows that an arm is beyond its bound.
"""

import math

import matplotlib.pyplot as plt
import numpy as np

import posse
from posse.confidence import evidence_above

plt.style.use("posse.figures.house")

# %%
# At most one sale in twenty may be sent back. One in five coupons is: the guard retires the coupon.
refund = posse.Outcome(at_most=0.05, action="retire")
offers = {"coupon": (0.3, 0.2), "banner": (0.2, 0.03), "nothing": (0.1, 0.03)}  # how often bought, and sent back
learner = posse.Learner(arms=offers, players=["Lyon"], outcomes={"refund": refund}, seed=1)
rng = np.random.default_rng(1)
for _ in range(600):
    decision = learner.choose("Lyon")
    bought, sent_back = rng.random(2) < offers[decision.arm]
    learner.observe(decision, bought, {"refund": sent_back})
print(learner.alarms, learner.arms)

# %%
# How many values does that take? Here are 200 experiments for each true rate. The guard looks after each value, and
# yet the probability that it *ever* raises a false alarm is at most 5 %, for all three arms together.
counts = np.arange(1, 2001)
figure, axes = plt.subplots(figsize=(7.2, 3.4), layout="constrained")
for rate, label in {0.2: "20 %", 0.1: "10 %", 0.075: "7.5 %", 0.05: "5 %, which is allowed"}.items():
    sums = (rng.random((200, 2000)) < rate).cumsum(axis=1)
    alarm = evidence_above(counts, sums, 0.05) >= math.log(3 / 0.05)
    by_then = np.maximum.accumulate(alarm, axis=1).mean(axis=0)
    axes.plot(counts, by_then, label=label)
axes.set(xscale="log", xlim=(10, 2000), ylim=(0, 1.02), xlabel="sales", ylabel="alarm raised by then")
axes.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
figure.legend(title="sent back", loc="outside right center")
plt.show()
