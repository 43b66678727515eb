"""
A plan: is it worth it?
=======================

Before an experiment begins, ``plan`` simulates it on many problems that fit your guess, and says what sharing would
save and what a wrong ε would cost.
"""

from posse.insight import plan

# %%
# Twelve shops, three offers, 150 customers per shop and day for two weeks. We guess that one customer in five buys,
# that the best offer gains three more in a hundred, and that shops differ by at most ε = 0.05 on each offer.
found = plan(players=12, arms=3, decisions=150, days=14, base=0.2, effect=0.03, epsilon=0.05, problems=40)
print(found)

# %%
# On the left, what each policy loses over the days. On the right, what a wrong ε does to RobustAgg-TS. Run it for the
# smallest and the largest effect that you believe in: a plan is as good as the guess behind it.
found.figure()
