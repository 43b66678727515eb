"""The database: its tables, the log and its chain, transactions and queries."""
