"""How players differ, estimated from everybody's statistics: the model of docs/posse-ts.md, for PosseTS.

Player p's mean for an arm varies around a center: that of p's group, shifted on the logit scale by p's level and by
what p's attributes do to this arm. What is p's own has the variance ρ c (1−c) around that center c, as a Beta
distribution of strength 1/ρ − 1 has. A pair's n pulls, divided by the dispersion, then say about as much of the center
as h = n (1−ρ) / (1 + ρ (n − 1)) single pulls would (`effective`).
"""
