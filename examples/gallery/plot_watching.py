"""
Watching an experiment
======================

``watch`` reads the log of a running experiment: are arms chosen with the probabilities that the log has, do rewards
arrive alike for all arms, and what does the adaptive part earn? Look as often as you like: it holds at every look.
"""

import numpy as np

import posse
from posse.insight import watch

# %%
# Two shops. A tenth of the decisions is a *holdout*, drawn with equal shares whatever was learned, to compare with.
rng = np.random.default_rng(1)
rates = {"today": 0.10, "banner": 0.20, "letter": 0.12}
shops = ["north", "south"]
learner = posse.Learner(posse.PosseTS(), rates, shops, holdout=0.1, floor=0.1, control="today", seed=3)
for customer in range(3000):
    decision = learner.choose(shops[customer % 2])
    lost = customer >= 1500 and decision.arm == "banner" and rng.random() < 0.5
    if not lost:  # from the 1,500th customer on, half of the banner's reports are lost on the way
        learner.observe(decision, rng.random() < rates[decision.arm])

# %%
# The second check notices that the banner's rewards go missing. Until that is mended, do not trust what rests on them.
found = watch(learner)
print(found)

# %%
# Each panel begins at 0. In the first two a line that leaves it means that an arm was chosen, or rewarded, more or less
# often than its probabilities say; the grey band is where the alarm was raised. The others show what learning earns.
found.figure()
