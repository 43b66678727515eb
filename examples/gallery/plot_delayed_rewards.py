"""
Delayed rewards
===============

Whether a customer buys may be known only days later. What does the delay cost, and does it matter whether rewards come
one by one or in nightly batches?
"""

import matplotlib.pyplot as plt

import posse
from posse.simulation import Feedback

plt.style.use("posse.figures.house")

# %%
# ``Feedback(delay=d)`` makes the rewards of a round known d rounds later; ``Feedback(batch=b)`` makes them known
# together after every b-th round. Regret is still counted when an arm is pulled.
problems = posse.generate.structured(count=20, players=12, arms=5, seed=1)
policies = [posse.PosseTS(), posse.IndTSV()]
waits = [0, 10, 20, 50, 100, 200]
regret = {}
for kind in ("delay", "batch"):
    runs = []
    for wait in waits:
        feedback = Feedback(**{kind: wait}) if wait else Feedback()
        result = posse.simulate(problems, policies, 1000, feedback=feedback, checkpoints=1)
        runs.append(result.final_regret.mean(axis=(1, 2)))
    regret[kind] = runs

# %%
# A delay costs about what players lose by choosing blindly until the first rewards come; sharing cannot shorten that.
# Batches cost a little less, because a reward then waits half as long on average.
figure, panels = plt.subplots(1, 2, figsize=(7.2, 3.0), layout="constrained", sharey=True)
for axes, (kind, runs) in zip(panels, regret.items(), strict=True):
    for number, policy in enumerate(policies):
        heights = [run[number] for run in runs]
        axes.plot(waits, heights, color=policy.look.color, marker="o", label=policy.label)
    axes.set(xlabel="delay, in rounds" if kind == "delay" else "rounds in a batch", ylim=0)
panels[0].set_ylabel("regret after 1,000 rounds")
panels[0].legend()
plt.show()
