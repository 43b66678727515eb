"""A spec: a TOML file, its studies, and the units of work that they are cut into."""
