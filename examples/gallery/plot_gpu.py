"""
On a GPU: thousands of runs
===========================

``backend="cuda"`` plays the same runs on an NVIDIA GPU, from the same file and with the same random numbers.
``backend="auto"`` takes a GPU if there is one, and the CPU otherwise.
"""

import matplotlib.pyplot as plt
import numpy as np

import posse
from posse.simulation.backend import what_cuda_misses

plt.style.use("posse.figures.house")
print("no GPU here, so the CPU will do:" if what_cuda_misses() else "on a GPU", what_cuda_misses())

# %%
# What needs thousands of runs is not a mean but a tail: how bad is the worst run of a thousand? All runs of a policy
# are one launch on a GPU, and it does not matter there whether they are a thousand or thirty thousand.
problem = posse.generate.structured(players=10, arms=5, spread=0.1, seed=5)[0]
policies = [posse.PosseTS(), posse.IndTSV()]
result = posse.simulate(problem, policies, horizon=300, replications=1500, checkpoints=1, backend="auto")
regret = result.final_regret[:, 0]

# %%
# The share of runs that lose more than so much, on a scale on which rare runs can be seen. Sharing makes a typical run
# far better. The worst run of a thousand is no better: players who share can also be wrong together.
figure, axes = plt.subplots(figsize=(7.2, 3.2), layout="constrained")
for policy, lost in zip(policies, regret, strict=True):
    more = 1 - np.arange(len(lost)) / len(lost)
    axes.plot(np.sort(lost), more, color=policy.look.color, label=policy.label)
axes.set(xlabel="regret after 300 rounds", ylabel="share of runs that lose more", yscale="log", xlim=0)
axes.yaxis.set_major_formatter(lambda share, _: f"{share:.1%}")
axes.legend()
plt.show()
