"""How every picture of the project looks: one palette, one style, one look for each policy."""

from posse.extras import extra

with extra("experiments", "a figure"):
    import matplotlib as matplotlib
