"""Planning: what sharing would save and what a wrong ε would cost, before an experiment starts."""
