"""Random numbers: the published Philox, counters that never meet, keys that depend on all they should."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from posse import streams
from posse.compile import bind

ONES = 0xFFFFFFFF

# The known-answer vectors of the Random123 library: counter, key, words.
KNOWN_ANSWERS = {
    "zeros": ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    "ones": ((ONES, ONES, ONES, ONES), (ONES, ONES), (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    "digits of pi": (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
}
PURPOSES = {
    "DRAW": streams.DRAW,
    "REFINE": streams.REFINE,
    "REWARD": streams.REWARD,
    "SCHEDULE": streams.SCHEDULE,
    "GENERATE": streams.GENERATE,
    "DECISION": streams.DECISION,
    "SAMPLE": streams.SAMPLE,
}


@pytest.fixture(scope="module", params=["plain", "compiled"])
def philox(request):
    return streams.philox if request.param == "plain" else bind(streams.philox)


@pytest.fixture(scope="module", params=["plain", "compiled"])
def block(request):
    return streams.block if request.param == "plain" else bind(streams.block)


def counter_of(number, player, round_, purpose):
    """The Philox counter that `block` uses, seen by standing in its place."""

    def philox(c0, c1, c2, c3, k0, k1):
        return c0, c1, c2, c3

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streams, "philox", philox)
        return streams.block(number, player, round_, purpose, (0, 0))


class TestPhilox:
    @pytest.mark.parametrize("name", KNOWN_ANSWERS)
    def test_known_answers(self, philox, name):
        counter, key, words = KNOWN_ANSWERS[name]
        assert philox(*counter, *key) == words

    def test_plain_and_compiled_agree_where_the_top_bit_is_set(self):
        compiled = bind(streams.philox)
        numbers = np.random.default_rng(1).integers(0, 2**32, (300, 6)) | 0x80000000
        for inputs in numbers.tolist():
            assert compiled(*inputs) == streams.philox(*inputs)

    def test_words_are_32_bits_and_not_negative(self, philox):
        words = [word for c0 in range(200) for word in philox(c0, 0, 0, 0, 1, 2)]
        assert 0 <= min(words) < 2**26
        assert 2**32 - 2**26 < max(words) < 2**32

    @pytest.mark.parametrize("place", range(6))
    def test_every_input_matters_in_its_highest_and_lowest_bit(self, philox, place):
        base = [0, 0, 0, 0, 0, 0]
        for bit in (1, 1 << 31):
            changed = list(base)
            changed[place] ^= bit
            assert set(philox(*changed)).isdisjoint(philox(*base))


class TestCounters:
    def test_no_two_draws_share_a_counter(self):
        places = itertools.product(
            (0, 1, 5, 2**20 + 1), (0, 1, 31, 2**20), (1, 2, 2**32 - 1, 2**32, 2**32 + 1, 2**56 - 1), PURPOSES.values()
        )
        counters = [counter_of(*place) for place in places]
        assert len(set(counters)) == len(counters)

    def test_counters_are_32_bit_words_up_to_the_last_round(self):
        for purpose in PURPOSES.values():
            assert all(0 <= word < 2**32 for word in counter_of(7, 7, streams.MAX_ROUND - 1, purpose))

    def test_one_round_too_many_would_run_into_the_next_purpose(self):
        """Why MAX_ROUND is what it is."""
        assert counter_of(0, 0, streams.MAX_ROUND, streams.DRAW) == counter_of(0, 0, 0, streams.REFINE)

    def test_purposes_are_different_numbers(self):
        assert len(set(PURPOSES.values())) == len(PURPOSES)
        public = {name for name, value in vars(streams).items() if name.isupper() and type(value) is int}
        assert public - {"MASK32", "MAX_ROUND"} == set(PURPOSES), "a purpose is missing from this test"

    def test_rounds_beyond_32_bits_give_other_words(self, block):
        early = block(0, 3, 5, streams.DRAW, (1, 2))
        late = block(0, 3, 5 + 2**32, streams.DRAW, (1, 2))
        assert set(early).isdisjoint(late)

    def test_the_compiled_block_is_the_plain_one(self):
        compiled = bind(streams.block)
        for place in itertools.product((0, 9), (0, 40), (1, 2**31, 2**32 + 5, 2**56 - 1), PURPOSES.values()):
            assert compiled(*place, (ONES, 0x80000001)) == streams.block(*place, (ONES, 0x80000001))


class TestKeys:
    def test_seed_stream_and_replication_all_matter(self):
        numbers = (0, 1, 2, 12, 2**32, 2**64 + 1)
        keys = {streams.key(*parts) for parts in itertools.product(numbers, repeat=3)}
        assert len(keys) == len(numbers) ** 3

    def test_a_key_is_two_32_bit_words(self):
        words = np.array([streams.key(seed) for seed in range(500)])
        assert words.min() >= 0
        assert words.max() < 2**32
        assert words.max(axis=0).min() > 2**31, "the top bit is used in both words"

    def test_keys_never_change_between_versions(self):
        """A stored result can be repeated only as long as this holds."""
        assert streams.key(0) == (1772270436, 669464135)
        assert streams.key(1, 2, 3) == (2857476039, 2571052491)

    def test_numpy_integers_are_integers(self):
        assert streams.key(np.int64(7), 1, 2) == streams.key(7, 1, 2)

    @pytest.mark.parametrize(
        ("seed", "error"), [(-1, ValueError), (1.0, TypeError), ("1", TypeError), (None, TypeError), ([1], TypeError)]
    )
    def test_what_is_no_seed_is_refused_by_name(self, seed, error):
        with pytest.raises(error, match=r"^seed=.*a whole number of at least 0"):
            streams.key(seed)


class TestUniforms:
    def test_they_lie_inside_the_unit_interval_on_their_grid(self):
        numbers = streams.uniforms(2000, streams.key(3), streams.GENERATE)
        assert ((numbers > 0) & (numbers < 1)).all()
        steps = numbers * 2.0**52 - 0.5
        assert np.array_equal(steps, np.floor(steps))

    def test_the_extreme_words_stay_inside(self, monkeypatch):
        for word in (0, ONES):
            monkeypatch.setattr(streams, "block", lambda *place, word=word: (np.array([word]), np.array([word]), 0, 0))
            assert 0 < streams.uniforms(1, (0, 0), streams.GENERATE)[0] < 1

    def test_a_longer_sequence_begins_with_the_shorter(self):
        key = streams.key(3)
        longer = streams.uniforms(20, key, streams.GENERATE)
        assert np.array_equal(streams.uniforms(7, key, streams.GENERATE), longer[:7])
        assert not np.array_equal(streams.uniforms(7, key, streams.SCHEDULE), longer[:7])


def looks_random(bits):
    """Whether each column of bits is set about half of the time, and no two columns go together."""
    signs = 2.0 * bits - 1.0
    correlations = signs.T @ signs / len(bits)
    np.fill_diagonal(correlations, signs.mean(axis=0))
    return abs(correlations).max() < 5 / np.sqrt(len(bits))


def test_bits_of_neighbouring_counters_look_random():
    compiled = bind(streams.block)
    words = np.array([compiled(0, player, t, streams.DRAW, (1, 2)) for player in range(20) for t in range(1, 501)])
    bits = (words[:, :, None] >> np.arange(32) & 1).reshape(len(words), -1)
    assert looks_random(bits)
    assert not looks_random(np.maximum(bits, np.roll(bits, 1, axis=1))), "the check could not see dependence"
