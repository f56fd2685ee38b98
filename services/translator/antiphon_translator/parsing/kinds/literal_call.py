"""Calls as a list of Python dictionaries, as Sarashina writes them: `[{'name': 'f', 'arguments': {'a': True}}]`.

The source of all calls is collected to its end and read by Python's own parser. Its first call must begin with its
name: until the name is known, the text may be an answer that is a list.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from antiphon_translator.parsing.cursor import Malformed, Reader
from antiphon_translator.parsing.kinds import json_arguments
from antiphon_translator.parsing.python_literals import QUOTES, value_of
from antiphon_translator.parsing.reading import Reading


@dataclass(frozen=True, slots=True)
class LiteralCall:
    """A list of Python dictionaries. The `bare` syntax of a family is one, too: it reads calls that no marker opens."""

    open: tuple[str, ...] = ()
    close: tuple[str, ...] = ()
    section_open: tuple[str, ...] = ()
    section_close: tuple[str, ...] = ()

    def read(self, reading: Reading) -> Reader[None]:
        """Emits all calls at the end of the last one. If they cannot be read, the first one is incomplete, with the
        text behind its name; without a marker they are text."""
        cursor = reading.cursor
        yield from cursor.spaces()
        bracket = "[" if (yield from cursor.literal("[")) else ""
        name = yield from _name(reading)
        if not reading.can_call(name):
            raise Malformed
        written: list[str] = []
        cursor.loosen_mark()
        is_whole = yield from cursor.python_list(written.append, depth=len(bracket) + 1)
        rest = "".join(written)
        calls = _calls(value_of(f"{bracket}{{'name': {name!r}{rest}")) if is_whole else []
        if calls and all(reading.can_call(each) for each, _ in calls):
            for call in calls:
                _write(reading, *call)
        elif reading.is_offered(name) and (self.open or not cursor.is_marked):
            _write(reading, name, rest)
        else:
            raise Malformed


def _name(reading: Reading) -> Reader[str]:
    """Reads the beginning of a dictionary up to its name."""
    cursor = reading.cursor
    for expected in (("{",), _quote_forms("name"), (":",)):
        yield from cursor.spaces()
        if (yield from cursor.one_of(expected)) is None:
            raise Malformed
    yield from cursor.spaces()
    quote = yield from cursor.one_of(QUOTES)
    name = yield from cursor.word()
    if quote is None or not (yield from cursor.literal(quote)):
        raise Malformed
    return name


def _quote_forms(text: str) -> tuple[str, ...]:
    return tuple(f"{quote}{text}{quote}" for quote in QUOTES)


def _calls(value: Any) -> Sequence[tuple[str, str]]:
    """The names and the arguments of calls; empty if one of them is no call."""
    each_call = value if isinstance(value, list) else [value]
    if not all(isinstance(each, dict) and isinstance(each.get("name"), str) for each in each_call):
        return []
    return [(each["name"], _arguments(each.get("arguments"))) for each in each_call]


def _arguments(value: Any) -> str:
    try:
        written = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (ValueError, TypeError, RecursionError):
        return repr(value)
    return json_arguments.unwrap(written) or written


def _write(reading: Reading, name: str, arguments: str) -> None:
    reading.begin_call(name)
    reading.out.arguments(arguments)
    reading.out.end_call()
