"""Counter-based random numbers: any draw of any run can be recomputed alone.

The generator is Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3",
SC 2011). A *key* names a run, from `key(seed, stream, replication)`; a *counter* names a draw inside it, from
(block, player, round, purpose). Nothing is advanced or stored, so threads, chunks and order cannot matter.

Functions here are plain Python on integers and are compiled by whoever uses them.
"""

import hashlib

import numpy as np

from posse.checks import whole

BOUND_FOR_EACH_POLICY = True  # on a GPU, `philox` is `posse.simulation.cuda_device.philox_in_32_bits`

MASK32 = 0xFFFFFFFF
MAX_ROUND = 2**56

# Philox works on unsigned numbers: overflow of a signed product is undefined, and compilers exploit that.
MULTIPLIER_0 = np.uint64(0xD2511F53)
MULTIPLIER_1 = np.uint64(0xCD9E8D57)
WEYL_0 = np.uint64(0x9E3779B9)
WEYL_1 = np.uint64(0xBB67AE85)
LOWER = np.uint64(MASK32)
HALF = np.uint64(32)

# What a draw is for. Together with round and player it makes the counter, so no two draws ever share one.
DRAW = 0  # word 0: the reward; then 16 bits for each arm's index, two arms a word, the lower half first
REFINE = 1  # block i: the next 48 bits of arm i's index, fetched only when they matter
REWARD = 2  # further words for rewards that need more than one
SCHEDULE = 3  # who is active
GENERATE = 4  # drawing problems
DECISION = 5  # a learner's decisions; the serial number stands for the round
SAMPLE = 6  # indices that are Beta draws: 2¹² blocks for each arm


def philox(c0, c1, c2, c3, k0, k1):
    """Four 32-bit words for the counter (c0, c1, c2, c3) under the key (k0, k1).

    >>> [hex(word) for word in philox(0, 0, 0, 0, 0, 0)]
    ['0x6627e8d5', '0xe169c58d', '0xbc57ac4c', '0x9b00dbd8']
    """
    a, b, c, d = np.uint64(c0), np.uint64(c1), np.uint64(c2), np.uint64(c3)
    u, v = np.uint64(k0), np.uint64(k1)
    for _ in range(10):
        p = MULTIPLIER_0 * a
        q = MULTIPLIER_1 * c
        a, b, c, d = (q >> HALF) ^ b ^ u, q & LOWER, (p >> HALF) ^ d ^ v, p & LOWER
        u = (u + WEYL_0) & LOWER
        v = (v + WEYL_1) & LOWER
    return np.int64(a), np.int64(b), np.int64(c), np.int64(d)


def block(number, player, round_, purpose, key):
    """Words 4·number … 4·number + 3 of what `player` draws in `round_` for `purpose`."""
    player = np.int64(player)  # of whatever type, so that `philox` is compiled once
    return philox(number, player, round_ & MASK32, (round_ >> 32) | (purpose << 24), key[0], key[1])


def key(seed: int, stream: int = 0, replication: int = 0) -> tuple[int, int]:
    """The key of a run: two 32-bit words from the user's seed, the problem's stream number and the replication."""
    parts = (check_seed(seed), int(stream), int(replication))
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=8, person=b"posse key").digest()
    return int.from_bytes(digest[:4], "little"), int.from_bytes(digest[4:], "little")


def uniforms(count: int, key: tuple[int, int], purpose: int) -> np.ndarray:
    """`count` numbers, uniform on (0, 1) on a grid of 2⁻⁵², for work outside the simulator."""
    high, low, _, _ = block(np.arange(count), 0, 0, purpose, key)
    return ((high << 20 | low >> 12) + 0.5) * 2.0**-52


def check_seed(seed: int) -> int:
    """The seed as a Python integer, or an error that says what a seed is."""
    return whole("seed", seed, least=0)
