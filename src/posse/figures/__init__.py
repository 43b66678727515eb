"""How every picture of the project looks: one palette, one style, one look for each policy."""
