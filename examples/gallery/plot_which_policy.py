"""
Which policy?
=============

Twenty shops choose among ten offers. In which policy's hands do they lose least? Every policy meets the same shops,
customers and luck, so a small number of problems is enough to tell them apart.
"""

import posse

# %%
# The problems are drawn as in the paper: eight of the ten arms are bad for everybody, and for each arm the players'
# mean rewards lie within ε = 0.15. Only RobustAgg-TS is told this number.
problems = posse.generate.subpar(8, count=10, seed=1)
policies = [posse.PosseTS(), posse.IndTSV(), posse.RobustAggTS(0.15), posse.IndTS(), posse.IndUCB()]
result = posse.simulate(problems, policies, horizon=10_000)
print(result)

# %%
# *Regret* is what was lost compared with always choosing each player's best arm. Two gains add up in PosseTS: it
# models how noisy rewards are, and it shares data between players. Ind-TS-V has the same model and shares nothing,
# so the distance between these two is what sharing is worth.
result.plot()
