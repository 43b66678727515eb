"""Evaluation: what other policies would have earned, judged from a log."""
