"""Log lines: text or JSON, the request's id, no tokens, and no line in a loop."""

from __future__ import annotations

import json
import logging

from posse.service.logs import MOST_ALIKE, PERIOD, JsonFormatter, RepeatFilter, TextFormatter, TokenFilter, request_id


def line_of(message, *args, name="posse", **more):
    return logging.LogRecord(name, logging.ERROR, "", 0, message, args, more.get("exc_info"))


def written(formatter, repeats, record):
    """What a handler writes, None if nothing."""
    passes = repeats.filter(record) and TokenFilter().filter(record)
    return formatter.format(record) if passes else None


def test_the_same_line_passes_a_few_times_and_what_was_left_out_is_counted():
    now = [0.0]
    repeats, text = RepeatFilter(lambda: now[0]), logging.Formatter()
    lines = [written(text, repeats, line_of("no file for %d\nsocket %d", number, number)) for number in range(50)]
    assert lines[:9] == [f"no file for {number}\nsocket {number}" for number in range(9)]
    assert lines[9] == "no file for 9\nsocket 9 (more lines like this one are left out for up to 60 s)"
    assert lines[MOST_ALIKE:] == [None] * 40
    assert written(text, repeats, line_of("no file for %d", 1, name="other")) == "no file for 1"
    assert written(text, repeats, line_of("another line")) == "another line"
    now[0] = PERIOD
    later = [written(text, repeats, line_of("no file for %d", number)) for number in range(2)]
    assert later == ["no file for 0 (40 lines like this one were left out before it)", "no file for 1"]


def test_lines_of_requests_all_pass_and_many_templates_are_one():
    repeats, text = RepeatFilter(lambda: 0.0), logging.Formatter()
    assert None not in [written(text, repeats, line_of("%s", "GET", name="posse.access")) for _ in range(100)]
    lines = [written(text, repeats, line_of(f"line {number}")) for number in range(2000)]
    assert sum(line is not None for line in lines) == 1000 + MOST_ALIKE


def test_a_line_of_json_has_the_id_the_error_and_no_token():
    secret = "posse_12_" + 43 * "a"
    token = request_id.set("r-7")
    try:
        raise ValueError(f"about {secret}")
    except ValueError as error:
        record = line_of("with %s\nand more", secret, exc_info=(type(error), error, error.__traceback__))
        said = written(JsonFormatter(), RepeatFilter(), record)
        text = written(TextFormatter(), RepeatFilter(), line_of("short"))
    finally:
        request_id.reset(token)
    assert "\n" not in said
    found = json.loads(said)
    assert found.pop("time").endswith("+00:00")
    assert found.pop("exception").endswith("ValueError: about posse_…")
    assert found == {"level": "ERROR", "logger": "posse", "message": "with posse_…\nand more", "request_id": "r-7"}
    assert text.endswith(" ERROR short [r-7]")
    assert "request_id" not in json.loads(written(JsonFormatter(), RepeatFilter(), line_of("outside")))
