"""The version of posse, on its own so that every module can name it."""

__version__ = "0.1.0"
