"""What the compiler makes of records and arrays is what Python makes of them, whatever way they take."""

from __future__ import annotations

import math

import numpy as np
import pytest

from posse.compile import bind, independent, masked, out_of_line
from posse.simulation.kernel import Measures


def into(measures, row):
    measures.regret[row] += measures.checkpoints[-1]
    return far(measures, row) + measures.checkpoints[row]


@out_of_line
def far(measures, row):
    measures.regret[-row] *= 3.0
    return farther(measures, row) if measures.checkpoints.size > 2 else 1.0


@out_of_line
def farther(measures, row):
    return into_last(measures) + measures.regret[row]


def into_last(measures):
    measures.regret[measures.regret.size - 1] += 0.25
    return measures.regret[0]


def pass_records(one, other, count):
    total = 0.0
    for row in range(count):
        chosen = one if row % 2 else other
        total += into(chosen, row)
        made = Measures(other.checkpoints, one.regret)
        total += far(made, row) * 0.5
        one, other = (other, one) if row == 2 else (one, other)
        total += into_last(one) - farther(other, row)
    kept = one
    one = other
    return total + far(one, 1) + into(kept, 0)


def test_records_arrive_whatever_way_they_take():
    def records():
        return Measures(np.arange(1, 6), np.linspace(0.0, 1.0, 5)), Measures(np.arange(7, 10), np.ones(3))

    compiled, plain = records(), records()
    assert bind(pass_records)(*compiled, 3) == pass_records(*plain, 3)
    for one, other in zip(compiled, plain, strict=True):
        assert one.regret.tolist() == other.regret.tolist()


def read_and_write(table, row, rows, small):
    total = 0.0
    for column in range(table.shape[1]):
        total += table[row, column] + table[-1, column] * table[rows[column], -column - 1]
        table[rows[column], column] = total
        small[column, 0, row] = total
        small[-1, rows[0], column] += table[0, 1] > 0.5
        total += small[1, 0, rows[column]]
    table[0, 0], table[1, -1] = 2, table[rows[1], rows[0]]
    return total + small[-2, -1, -3]


@pytest.mark.parametrize("rows", [np.array([2, 0, 1]), np.array([2, 0, 1], np.uint64), np.array([-1, -3, 1], np.int8)])
@pytest.mark.parametrize("small", [np.float32, np.float64])
@pytest.mark.parametrize("layout", ["C", "A", "F"])
def test_numbers_in_arrays_are_found_by_any_index(rows, small, layout):
    def arguments():
        table = np.random.default_rng(1).random((3, 3))
        table = {"C": table, "A": np.repeat(table, 2, axis=1)[:, ::2], "F": np.asfortranarray(table)}[layout]
        return table, 1, rows, np.zeros((3, 1 if rows[0] < 0 else 3, 3), small)

    compiled, plain = arguments(), arguments()
    assert bind(read_and_write)(*compiled) == pytest.approx(read_and_write(*plain), rel=1e-6)
    for one, other in zip((compiled[0], compiled[3]), (plain[0], plain[3]), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def turn(flag, number):
    return (number, 1.0) if flag else (2.0, number)


def with_inner_functions(numbers):
    def square(x):
        return x * x

    first, second = turn(True, 3.0)
    return square(numbers[0]) + square(numbers[1]) + first * turn(False, second)[1]


def test_functions_inside_others_and_constants_as_arguments_are_compiled():
    assert bind(with_inner_functions)((3.0, 4.0)) == 28.0


@masked
def divide(numbers, counts, rough, few):
    wrong = 0
    for place in range(few):
        numbers[place] = numbers[place] / counts[place]
        rough[place] = math.sqrt(numbers[place])
        wrong |= counts[place]
    return wrong


def pass_on(table, few):
    for row in range(2):
        for place in range(few):
            table[row, place + 1] = table[row, place] + table[1 - row, place + 1]


@independent
def collect(table, places, counts, found, few):
    largest = 0.0
    for number in range(few):
        place = places[number]
        total = 0.0
        for power in range(place % 3):
            total += (0.5, 2.0, table[1, place])[power] * table[1, place]
        table[0, place] = math.sqrt(counts[place] / (total + 1.0))
        found[number] = tabled(place)
        largest = max(largest, table[0, place])
    return largest


@out_of_line
def tabled(place):
    return (3.0, 5.0, 7.0, 11.0)[place % 4]


def in_turns_and_at_once(numbers, counts, rough, table, places, found, few):
    wrong = divide(numbers, counts, rough, few)
    pass_on(table, few)
    return wrong + divide(numbers[1:], counts, rough, few) + collect(table, places, counts, found, few)


@pytest.mark.parametrize("few", [0, 1, 7, 8, 9, 20, 33])
def test_loops_in_vectors_take_every_number_once_and_no_other(few):
    def arguments():
        numbers, counts = np.linspace(0.1, 5.0, 40), np.arange(1, 41)
        table, each_twice = np.sqrt(np.arange(80.0)).reshape(2, 40), np.arange(40)[::-1] // 2
        return numbers, counts, np.zeros(40, np.float32), table, each_twice, np.zeros(40), few

    compiled, plain = arguments(), arguments()
    assert bind(in_turns_and_at_once)(*compiled) == in_turns_and_at_once(*plain)
    for one, other in zip(compiled[:-1], plain[:-1], strict=True):
        assert one.tolist() == other.tolist()
