"""Keeping a database: checking it against its log, rebuilding it, exporting and importing experiments."""
