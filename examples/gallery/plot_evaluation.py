"""
An evaluation: what would others have earned?
=============================================

A log that has the probability of every choice can judge policies that were never run.
"""

import numpy as np

import posse
from posse.insight import evaluate

# %%
# Three regions wrote letters, made calls or paid visits, drawn at random with known probabilities. A log is any table
# with a player, an arm, a propensity and a reward: a data frame, a Parquet file, or a mapping of columns as here.
rng = np.random.default_rng(7)
regions, actions = np.array(["north", "south", "islands"]), np.array(["letter", "call", "visit"])
means = np.array([[0.30, 0.42, 0.45], [0.35, 0.40, 0.52], [0.20, 0.45, 0.40]])
chances = np.array([0.5, 0.25, 0.25])
region, action = rng.choice(3, p=[0.6, 0.3, 0.1], size=3000), rng.choice(3, p=chances, size=3000)
reward = (rng.random(3000) < means[region, action]).astype(float)
log = {"player": regions[region], "arm": actions[action], "propensity": chances[action], "reward": reward}

# %%
# What would it have earned to visit everybody? To follow a table by region? To let PosseTS learn?
by_region = {"north": "visit", "south": "visit", "islands": "call"}
policies = ["logged", "call", "visit", by_region, posse.PosseTS()]
evaluation = evaluate(log, policies, against="letter", passes=5)
visit = evaluation.of("visit")
print(f"visits for everybody: {visit.value:.3f} [{visit.low:.3f}, {visit.high:.3f}] for each decision")

# %%
# A value per decision with its 95 % interval, and the difference to letters for everybody. The value of a policy that
# learns includes what it loses while it learns.
evaluation.figure()
