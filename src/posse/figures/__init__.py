"""How every picture of the project looks."""
