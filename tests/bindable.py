"""Functions to be bound and compiled."""

from __future__ import annotations

import numpy as np

FACTOR = 3.0


TABLE = np.array([5.0, 6.0, 7.0])


def twice(x):
    return 2.0 * x


def bind_me(x):
    return twice(x) + FACTOR + TABLE[1]


def closure(number):
    def scaled(x):
        return number * x

    return scaled
