"""The paper's evaluation: its spec, its figures, its claims and what the records say of them."""
