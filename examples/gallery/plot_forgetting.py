"""
When means change: forgetting
=============================

If what arms earn changes over time, old rewards mislead. Every policy takes ``forget``, a half-life: after so many
rounds a reward counts half.
"""

import matplotlib.pyplot as plt

import posse

plt.style.use("posse.figures.house")

# %%
# Four worlds of 20 players and 10 arms. Nothing changes; the best and the worst arm change places halfway; every arm
# drifts a little, 19 times; or every arm goes through seasons.
ROUNDS, PROBLEMS = 10_000, 5
often = {"every": ROUNDS // 20, "times": 19, "count": PROBLEMS}
worlds = {
    "no change": posse.generate.structured(count=PROBLEMS),
    "one change": posse.generate.changing("swap", every=ROUNDS // 2, count=PROBLEMS),
    "slow drift": posse.generate.changing("drift", **often),
    "seasons": posse.generate.changing("season", **often),
}
half_lives = [None, 5000, 2500, 1000, 500, 250]
policies = [posse.PosseTS(forget=half_life) for half_life in half_lives]
regret = {}
for name, problems in worlds.items():
    regret[name] = posse.simulate(problems, policies, ROUNDS, checkpoints=1).final_regret.mean(axis=(1, 2))
    print(f"{name:<12}" + "".join(f"{each:>8,.0f}" for each in regret[name]))

# %%
# Forgetting is worth it only if means change. Choose the half-life by how long means stay what they are: the faster
# they change, the shorter.
figure, axes = plt.subplots(figsize=(7.2, 3.4), layout="constrained")
for marker, (name, heights) in zip("os^D", regret.items(), strict=True):
    axes.plot(heights, marker=marker, label=name)
axes.set_xticks(range(len(half_lives)), ["none", *half_lives[1:]])
axes.set(xlabel="half-life of a reward, in rounds", ylabel=f"regret after {ROUNDS:,} rounds", yscale="log")
axes.legend()
plt.show()
