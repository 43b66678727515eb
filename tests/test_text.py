"""Text helpers that everything prints with, and the check of files to write."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import pytest

from posse import checks, text


class TestTables:
    def test_rows_of_different_lengths_and_sides(self):
        lines = text.align([["a", "bb", "ccc"], ["aaaa", "b"], ["a", "b", "c", "d"]], "<^>")
        assert lines == ["a     bb  ccc", "aaaa  b", "a     b     c  d"]

    def test_no_rows_are_no_lines(self):
        assert text.align([]) == []

    def test_blocks_have_the_first_columns_each_and_fit(self):
        names = ["", "north"]
        blocks = text.align_blocks([names], [[f"arm {number}", "0.5"] for number in range(5)], width=21)
        assert [block[0].split() for block in blocks] == [
            ["arm", "0", "arm", "1"],
            ["arm", "2", "arm", "3"],
            ["arm", "4"],
        ]
        assert all(block[1].startswith("north") for block in blocks)
        assert max(len(line) for block in blocks for line in block) <= 21

    def test_a_column_that_is_too_wide_alone_has_a_block_of_its_own(self):
        assert len(text.align_blocks([["x"]], [["y" * 50], ["z"]], width=10)) == 2


class TestJson:
    def test_records_arrays_and_what_json_cannot_hold(self):
        @dataclass(frozen=True)
        class Record:
            values: np.ndarray
            pair: tuple[str, float]

        record = Record(np.array([[1.0, np.inf]]), ("ε", float("nan")))
        assert json.loads(text.to_json({"record": record, "count": np.int64(3), "flag": np.True_})) == {
            "record": {"values": [[1.0, None]], "pair": ["ε", None]},
            "count": 3,
            "flag": True,
        }


class TestOutputFile:
    def test_a_file_in_a_folder_that_exists_may_be_written_and_replaced(self, tmp_path):
        path = tmp_path / "out.json"
        assert checks.output_file(str(path)) == path
        path.touch()
        assert checks.output_file(path) == path

    def test_what_cannot_be_written_is_named(self, tmp_path):
        taken = tmp_path / "taken.db"
        taken.touch()
        with pytest.raises(IsADirectoryError, match="is a folder, but expected a file to save to"):
            checks.output_file(tmp_path, to="save")
        with pytest.raises(FileNotFoundError, match=r"^there is no folder .*nowhere to save x.json in"):
            checks.output_file(tmp_path / "nowhere" / "x.json", to="save")
        with pytest.raises(FileExistsError, match=r"taken.db exists already; expected the name of a new file"):
            checks.output_file(taken, new=True)
        with pytest.raises(ValueError, match="--json '', but expected a file to write to"):
            checks.output_file("", "--json")
        with pytest.raises(ValueError, match=r"--figure 'x.txt', but expected a file that ends in .png, .svg"):
            checks.output_file("x.txt", "--figure", endings=(".png", ".svg"))
        with pytest.raises(FileNotFoundError, match="--json 'nowhere/x', but there is no folder nowhere to write x in"):
            checks.output_file("nowhere/x", "--json")
