"""
Contexts: region, device, age
=============================

Often little is known about one visitor, but something about what kind of visitor it is. Tell posse these *attributes*,
and PosseTS learns what each of them does to each arm.
"""

import matplotlib.pyplot as plt
import numpy as np

import posse

plt.style.use("posse.figures.house")

# %%
# Sixty combinations of region, device and age, each a player. The attributes explain 90 % of how they differ. The same
# problems without their attributes are the control: nothing else changes, not even luck.
attributes = {"region": 5, "device": 3, "age": [25, 35, 50]}
wanted = {"arms": 5, "low": 0.2, "high": 0.5, "spread": 0.277, "explained": 0.9}
told = posse.generate.structured(count=8, seed=1, attributes=attributes, **wanted)
not_told = [problem.without_attributes() for problem in told]
print(told[0].attributes.name(told[0].values[0]))

# %%
# Ind-TS-V learns for each combination alone. LinTS is a linear model of the attributes. PosseTS has both: what
# attributes do, and what is a combination's own.
settings = {
    "Ind-TS-V: alone": (posse.IndTSV(), told),
    "LinTS, told": (posse.LinTS(), told),
    "PosseTS, not told": (posse.PosseTS(), not_told),
    "PosseTS, told": (posse.PosseTS(), told),
}
figure, axes = plt.subplots(figsize=(7.2, 3.4), layout="constrained")
for label, (policy, problems) in settings.items():
    result = posse.simulate(problems, policy, horizon=600, checkpoints=50)
    rounds, regret = np.insert(result.checkpoints, 0, 0), np.insert(result.regret.mean(axis=(0, 1, 2)), 0, 0.0)
    line = "--" if problems is not_told else "-"
    axes.plot(rounds, regret, color=policy.look.color, linestyle=line, label=label)
axes.set(xlabel="round", ylabel="regret of all combinations", xlim=(0, 600), ylim=0)
axes.legend()
plt.show()
