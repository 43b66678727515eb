"""
Reproduce Figure 1, small
=========================

Figure 1 of Wang, Zhang and Chaudhuri (2022) compares four algorithms on problems with eight and with five *subpar*
arms, which are bad for every player. Here it is with a tenth of the rounds and a fifth of the problems;
``posse paper`` makes all figures at full size, in a minute or two.
"""

import tempfile

from posse import experiments
from posse.experiments.report.figures import figure_1

# %%
# A study is data: which problems, which policies, how long. The same text in a file is run by ``posse run``.
spec = experiments.parse("""
[[study]]
name = "subpar"
horizon = 5000
problems = { family = "subpar", n_subpar = [8, 5], count = 6 }
policies = [
    { name = "RobustAggTS", epsilon = "problem" },
    { name = "RobustAgg", epsilon = "problem" },
    { name = "IndTS" },
    { name = "IndUCB" },
]
""")
records = experiments.run(spec, tempfile.mkdtemp())

# %%
# A row of panels for each number of subpar arms: regret over time, which arms were pulled, and which arms cost how
# much. Sharing saves most of what subpar arms cost, and little on arms that are nearly optimal. After 5,000 rounds the
# two algorithms that share are about even; at full size RobustAgg-TS is ahead. Add ``{ name = "PosseTS" }`` to the
# policies to see posse's own, which needs no ε.
figure_1(records)
