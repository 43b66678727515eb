"""Diagnosis: how far players really differ, and whether that breaks ε."""
