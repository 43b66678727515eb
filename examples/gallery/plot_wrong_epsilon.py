"""
A wrong ε
=========

RobustAgg-TS must be told ε, the most by which two players' mean rewards on one arm may differ. What if you tell it a
wrong one? PosseTS needs none.
"""

import matplotlib.pyplot as plt

import posse

plt.style.use("posse.figures.house")

# %%
# Twelve shops and three offers, of which one is better by 0.03. On each offer the shops lie within ε = 0.05.
# RobustAgg-TS is given twelve guesses of that number; Ind-TS learns alone.
TRUE = 0.05
guesses = [0, 0.01, 0.02, 0.03, 0.04, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5]
shops = {"players": 12, "arms": 3, "centers": [0.23, 0.20, 0.20], "spread": TRUE}
problems = posse.generate.structured(count=40, seed=2, **shops)
others = [posse.PosseTS(), posse.IndTSV(), posse.IndTS()]
policies = [*(posse.RobustAggTS(guess) for guess in guesses), *others]
result = posse.simulate(problems, policies, horizon=2100, checkpoints=1)
regret = result.final_regret.mean(axis=(1, 2))

# %%
# An ε that is too small does no harm here. One that is too large costs more than learning alone: while it shares,
# RobustAgg-TS adds ε to an arm's estimate, so arms with little data look too good for too long.
figure, axes = plt.subplots(figsize=(7.2, 3.4), layout="constrained")
axes.axvline(TRUE, color="#999999", linewidth=0.8)
axes.annotate(" the right ε", (TRUE, 0), xytext=(0, 4), textcoords="offset points", color="#666666")
axes.plot(guesses, regret[:-3], "o-", color=posse.RobustAggTS.look.color, label="RobustAgg-TS, told this ε")
for policy, height in zip(others, regret[-3:], strict=True):
    axes.axhline(height, color=policy.look.color, linestyle=policy.look.line, label=policy.label)
axes.set(xlabel="ε that RobustAgg-TS is told", ylabel="regret after 2,100 rounds", ylim=0)
figure.legend(loc="outside upper center", ncols=4)
plt.show()
