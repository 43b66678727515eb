"""
Your own policy
===============

Every policy pulls the arm with the largest *center + scale · Z*, where Z is a standard normal draw. So a policy of
your own is one function that returns the two numbers. posse compiles it and runs it wherever its own policies run.
"""

import math
from dataclasses import dataclass

import matplotlib.pyplot as plt

import posse

plt.style.use("posse.figures.house")


# %%
# This one blends a player's own mean s/n with everybody's mean S/N, as if the latter were worth ``strength`` pulls.
# ``index`` names the numbers that it needs; :class:`posse.Policy` says which there are.
@dataclass(frozen=True)
class BlendTS(posse.Policy):
    """Thompson sampling around a player's own mean, blended with everybody's."""

    strength: float
    refresh = posse.policies.Refresh.ANY_PULL  # the index follows everybody's data at once

    @staticmethod
    def index(n, s, N, S, strength):
        weight = n + strength
        return (s + strength * S / max(N, 1.0)) / weight, 0.5 / math.sqrt(weight)


# %%
# How much should everybody's mean be worth? Too little, and each player learns alone. Too much, and players who
# differ are taken for alike. PosseTS finds out by itself.
problems = posse.generate.structured(count=20, arms=5, spread=0.2, seed=1)
strengths, others = [1, 3, 10, 30, 100, 300], [posse.PosseTS(), posse.IndTS()]
result = posse.simulate(problems, [*map(BlendTS, strengths), *others], horizon=2000)
regret = result.final_regret.mean(axis=(1, 2))

figure, axes = plt.subplots(figsize=(7.2, 3.2), layout="constrained")
axes.plot(strengths, regret[:-2], "o-", color="#117733", label="BlendTS")
for policy, height in zip(others, regret[-2:], strict=True):
    axes.axhline(height, color=policy.look.color, linestyle="--", label=policy.label)
axes.set(xscale="log", xlabel="strength, in pulls", ylabel="regret after 2,000 rounds", ylim=0)
figure.legend(loc="outside upper center", ncols=3)
plt.show()
