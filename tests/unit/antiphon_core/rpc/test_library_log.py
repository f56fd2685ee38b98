from __future__ import annotations

import logging
import sys

from antiphon_core.rpc import library_log
from antiphon_core.rpc.library_log import LIBRARY_LOGGER, CallerLines

INVALID = "Invalid encoding on %s"
GONE = "ExecuteBatchError raised in core by servicer method [%s]"


def record(text: str, *values: object) -> logging.LogRecord:
    try:
        raise ValueError(values)
    except ValueError:
        return logging.LogRecord(LIBRARY_LOGGER, logging.ERROR, __file__, 1, text, values, sys.exc_info())


def test_metadata_of_callers_is_reported_once_in_a_while_without_its_value() -> None:
    now = [100.0]
    lines = CallerLines(lambda: now[0])
    first, *others = (record(INVALID, b"secret \xff") for _ in range(500))
    assert lines.filter(first)
    assert (first.getMessage(), first.exc_info, first.levelname) == (
        "Callers sent metadata that is not UTF-8: 1 times since the last such line.",
        None,
        "WARNING",
    )
    assert not any(lines.filter(each) for each in others)
    now[0] += 10.0
    last = record(INVALID, b"secret \xff")
    assert lines.filter(last)
    assert "500 times" in last.getMessage()


def test_callers_that_are_gone_are_not_logged() -> None:
    assert not CallerLines().filter(record(GONE, "/antiphon.store.v1.Responses/GetResponseRecord"))


def test_other_lines_pass_unchanged() -> None:
    other = record("Exception in %s", "the library")
    assert CallerLines().filter(other)
    assert (other.getMessage(), other.levelno) == ("Exception in the library", logging.ERROR)
    assert other.exc_info


def test_the_filter_is_installed_once() -> None:
    library_log.install()
    library_log.install()
    assert [type(each) for each in logging.getLogger(LIBRARY_LOGGER).filters].count(CallerLines) == 1
