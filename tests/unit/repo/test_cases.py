from __future__ import annotations

import inspect

import pytest

from tests.support.cases import in_one_test

CASES = {"one": 1, "two": 2, "three": 3}


def test_every_failing_case_is_named_and_no_other() -> None:
    seen = []

    @in_one_test("number", CASES)
    def is_even(number: int, tmp: str) -> None:
        seen.append((number, tmp))
        assert number % 2 == 0

    assert list(inspect.signature(is_even).parameters) == ["tmp"]  # pytest gives it the fixtures that are left
    with pytest.raises(ExceptionGroup, match="2 of 3 cases fail") as caught:
        is_even(tmp="a")
    assert [error.__notes__ for error in caught.value.exceptions] == [["case: one"], ["case: three"]]
    assert seen == [(1, "a"), (2, "a"), (3, "a")]


def test_a_test_without_cases_or_with_two_of_a_name_fails() -> None:
    for cases in ([], ["same", "same"]):
        with pytest.raises(AssertionError):
            in_one_test("case", cases)(lambda case: None)()


def test_an_error_of_a_case_is_raised_with_its_name() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        in_one_test("number", [0])(lambda number: 1 // number)()
    assert caught.value.__notes__ == ["case: 0"]
