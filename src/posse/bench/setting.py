"""The setting of the paper's experiments, which all figures are taken in."""

EPSILON = 0.15
PLAYERS = 20
ARMS = 10
