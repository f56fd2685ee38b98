from __future__ import annotations

import ast
import gc
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from antiphon_core import python_syntax

CALL = 'f(a=[1, {2: (3, "x")}])'
SOURCE = f"[{', '.join([CALL] * 300)}]"


@pytest.fixture
def switching() -> Iterator[None]:
    """Lets another thread run during each garbage collection. They are frequent, so that some come during a parse."""

    def switch(*_: object) -> None:
        time.sleep(0)

    before = gc.get_threshold()
    gc.callbacks.append(switch)
    gc.set_threshold(100)
    yield
    gc.set_threshold(*before)
    gc.callbacks.remove(switch)


@pytest.mark.usefixtures("switching")
@pytest.mark.parametrize("parse", [python_syntax.module, python_syntax.expression])
def test_threads_parse_at_the_same_time(parse: Callable[[str], ast.AST]) -> None:
    with ThreadPoolExecutor(4) as pool:
        parsed = list(pool.map(parse, [SOURCE] * 12))
    assert {ast.dump(tree) for tree in parsed} == {ast.dump(parse(SOURCE))}


@pytest.mark.parametrize(("source", "value"), [(r'"a\n"', "a\n"), (" [1, (2,)]", [1, (2,)]), ("None", None)])
def test_a_literal_has_its_value(source: str, value: Any) -> None:
    assert python_syntax.literal(source) == value


def test_code_that_is_no_literal_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="malformed node"):
        python_syntax.literal("open('x')")
