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
learner = posse.Learner(arms=["coupon", "banner", "nothing"], players=["Lyon"], outcomes={"refund": refund}, seed=1)
rng = np.random.default_rng(1)
for _ in range(600):
    decision = learner.choose("Lyon")
    sent_back = rng.random() < (0.2 if decision.arm == "coupon" else 0.03)
    learner.observe(decision, rng.random() < (0.3 if decision.arm == "coupon" else 0.2), {"refund": sent_back})
print(learner.alarms, learner.arms)

# %%
# How many values does that take? Here are 200 experiments for each true rate. The guard looks after each value, and
# yet the probability that it *ever* raises a false alarm is at most 5 %, for all three arms together.
counts = np.arange(1, 2001)
figure, axes = plt.subplots(figsize=(7.2, 3.4), layout="constrained")
for rate, color in zip((0.20, 0.10, 0.075, 0.05), plt.cm.viridis(np.linspace(0, 0.85, 4)), strict=True):
    sums = (rng.random((200, 2000)) < rate).cumsum(axis=1)
    alarm = evidence_above(counts, sums, 0.05) >= math.log(3 / 0.05)
    by_then = np.maximum.accumulate(alarm, axis=1).mean(axis=0)
    axes.plot(counts, by_then, color=color, label=f"{100 * rate:g} % sent back" + " (allowed)" * (rate <= 0.05))
axes.set(xscale="log", xlim=(10, 2000), ylim=(0, 1.02), xlabel="values of the arm", ylabel="alarm raised by then")
axes.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
figure.legend(loc="outside upper center", ncols=4)
plt.show()
