"""Calls as JSON: `{"name": ..., "arguments": {...}}`, alone or several in an array.

Arguments stream as they are written once the name is known. Keys may come in any order: arguments that come before the
name wait for it. Some models write arguments as a string that holds JSON; then its content is meant.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from antiphon_translator.parsing.cursor import Reader, nowhere
from antiphon_translator.parsing.reading import Malformed, Reading


@dataclass(frozen=True, slots=True)
class JsonCall:
    open: tuple[str, ...] = ()
    close: tuple[str, ...] = ()
    section_open: tuple[str, ...] = ()
    section_close: tuple[str, ...] = ()
    name_keys: tuple[str, ...] = ("name",)
    argument_keys: tuple[str, ...] = ("arguments", "parameters")
    name_is_key: bool = False
    """`{NAME: {...}}` instead."""
    needs_arguments: bool = False
    """An object with a name, but without arguments, is no call."""

    def read(self, reading: Reading) -> Reader[None]:
        cursor = reading.cursor
        yield from cursor.spaces()
        if (yield from cursor.literal("[")):
            yield from self._elements(reading)
        else:
            yield from self.read_object(reading)
        if self.close:
            yield from self._to_close(reading)

    def _to_close(self, reading: Reading) -> Reader[None]:
        """Behind the closer; before it there may be further calls, in lines of their own."""
        cursor = reading.cursor
        yield from cursor.spaces()
        while (yield from cursor.peek()) == "{":
            yield from self.read_object(reading)
            yield from cursor.spaces()
        yield from cursor.one_of(self.close)

    def read_object(self, reading: Reading) -> Reader[None]:
        """One object that is a call. Malformed."""
        if not (yield from reading.cursor.literal("{")):
            raise Malformed
        if self.name_is_key:
            yield from _named_by_key(reading)
        else:
            yield from self._members(reading)

    def _elements(self, reading: Reading) -> Reader[None]:
        cursor = reading.cursor
        while True:
            yield from cursor.spaces()
            if (yield from cursor.literal("]")):
                return
            if (yield from cursor.literal(",")):
                continue
            yield from self.read_object(reading)

    def _members(self, reading: Reading) -> Reader[None]:
        name: str | None = None
        early: str | None = None  # arguments that came before the name, or that are not an object
        while (key := (yield from _next_key(reading))) is not None:
            if key in self.name_keys and name is None:
                name = yield from _string(reading)
            elif key in self.argument_keys and early is None and not reading.out.in_call:
                early = yield from self._arguments(reading, name)
            elif not (yield from reading.cursor.json_value(nowhere)):
                raise Malformed
        if name is None or (self.needs_arguments and early is None and not reading.out.in_call):
            raise Malformed
        if not reading.out.in_call:
            arguments = _unwrapped(early)
            reading.begin_call(name)
            reading.out.arguments(arguments)
        reading.out.end_call()

    def _arguments(self, reading: Reading, name: str | None) -> Reader[str | None]:
        """Streams the arguments, when they can be; otherwise they are returned."""
        cursor = reading.cursor
        yield from cursor.spaces()
        if name is not None and (yield from cursor.peek()) == "{":
            reading.begin_call(name)
            if not (yield from cursor.json_value(reading.out.arguments)):
                raise Malformed
            return None
        held: list[str] = []
        if not (yield from cursor.json_value(held.append)):
            raise Malformed
        return "".join(held)


def _named_by_key(reading: Reading) -> Reader[None]:
    while (name := (yield from _next_key(reading))) is not None:
        reading.begin_call(name)
        if not (yield from reading.cursor.json_value(reading.out.arguments)):
            raise Malformed
        reading.out.end_call()


def _next_key(reading: Reading) -> Reader[str | None]:
    """The next key of an object, its colon behind it; None behind the object's end."""
    cursor = reading.cursor
    yield from cursor.spaces()
    if (yield from cursor.literal(",")):
        yield from cursor.spaces()
    if (yield from cursor.literal("}")):
        return None
    key = yield from _string(reading)
    yield from cursor.spaces()
    if not (yield from cursor.literal(":")):
        raise Malformed
    return key


def _string(reading: Reading) -> Reader[str]:
    written: list[str] = []
    if not (yield from reading.cursor.json_value(written.append)):
        raise Malformed
    try:
        value = json.loads("".join(written))
    except (ValueError, RecursionError) as error:
        raise Malformed from error
    if not isinstance(value, str):
        raise Malformed
    return value


def _unwrapped(arguments: str | None) -> str:
    """Arguments as an object: none at all are an empty one, and a string may hold them."""
    if arguments is None:
        return "{}"
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError) as error:
        raise Malformed from error
    if value is None:
        return "{}"
    return value if isinstance(value, str) and value.lstrip().startswith("{") else arguments
