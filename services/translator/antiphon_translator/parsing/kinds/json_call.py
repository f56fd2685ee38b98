"""Calls as JSON: `{"name": ..., "arguments": {...}}`, alone, several in a row or in an array.

Once the name is known, the arguments stream as the model writes them. Keys may come in any order: arguments before the
name are held back until the name comes. The closing brackets of a call may be missing, because the arguments are
complete without them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from antiphon_translator.parsing.alphabet import plain
from antiphon_translator.parsing.cursor import Malformed, Reader, discard
from antiphon_translator.parsing.kinds import json_arguments
from antiphon_translator.parsing.reading import Reading

_OTHER_KEYS = ("type", "id", "tool_call_id", "index")


@dataclass(frozen=True, slots=True)
class JsonCall:
    open: tuple[str, ...] = ()
    close: tuple[str, ...] = ()
    section_open: tuple[str, ...] = ()
    section_close: tuple[str, ...] = ()
    name_keys: tuple[str, ...] = plain(("name",))
    argument_keys: tuple[str, ...] = plain(("arguments", "parameters"))
    name_is_key: bool = False
    """Whether calls are written as `{NAME: {...}}`."""
    heading: tuple[str, ...] = ()
    """Markers of which one stands between the opener and the call, behind the name of the tool. The call repeats the
    name."""
    is_bare: bool = False
    """Whether no marker opens the call. An object without arguments, or with keys that calls do not have, is no call
    then."""

    def read(self, reading: Reading) -> Reader[None]:
        cursor = reading.cursor
        yield from cursor.spaces()
        if self.heading:
            yield from cursor.word()
            if (yield from cursor.one_of(self.heading)) is None:
                raise Malformed
            yield from cursor.spaces()
        if (yield from cursor.literal("[")):
            yield from cursor.spaces()
            yield from self._object(reading)
            yield from self._others(reading, (",",))
            yield from cursor.spaces()
            yield from cursor.literal("]")
        else:
            yield from self._object(reading)
            yield from self._others(reading, (";", ","))

    def _others(self, reading: Reading, separators: tuple[str, ...]) -> Reader[None]:
        """Reads any further calls."""
        cursor = reading.cursor
        while True:
            cursor.mark()
            try:
                yield from cursor.spaces()
                yield from cursor.one_of(separators)
                yield from cursor.spaces()
                yield from self._object(reading)
            except Malformed:
                if not cursor.is_marked:
                    raise
                cursor.rewind()
                cursor.unmark()
                return

    def _object(self, reading: Reading) -> Reader[None]:
        """Reads one object that is a call. Malformed: it is none."""
        if not (yield from reading.cursor.literal("{")):
            raise Malformed
        if self.name_is_key:
            yield from _named_by_key(reading)
        else:
            yield from self._members(reading)

    def _members(self, reading: Reading) -> Reader[None]:
        name: str | None = None
        early: str | None = None  # arguments that came before the name, or that are not an object
        while (key := (yield from _next_key(reading))) is not None:
            if key in self.name_keys and name is None:
                name = yield from _string(reading)
                reading.note_name(name)
            elif key in self.argument_keys and early is None and not reading.out.is_in_call:
                early = yield from self._arguments(reading, name)
            elif not self._may_have(key, reading) or not (yield from reading.cursor.json_value(discard)):
                raise Malformed
        if name is None or (self.is_bare and early is None and not reading.out.is_in_call):
            raise Malformed
        if not reading.out.is_in_call:
            arguments = "{}" if early is None else json_arguments.unwrap(early)
            if arguments is None and self.is_bare:
                raise Malformed
            reading.begin_call(name)
            reading.out.arguments(early or "" if arguments is None else arguments)
        reading.out.end_call()

    def _may_have(self, key: str, reading: Reading) -> bool:
        """Whether a call may have such a key. An object that is certainly a call may have any."""
        return not self.is_bare or reading.out.is_in_call or key in _OTHER_KEYS

    def _arguments(self, reading: Reading, name: str | None) -> Reader[str | None]:
        """Emits the arguments if they are an object and the name is known; otherwise returns them."""
        cursor = reading.cursor
        yield from cursor.spaces()
        if name is not None and (yield from cursor.peek()) == "{":
            reading.begin_call(name)
            if not (yield from cursor.json_value(reading.out.arguments)):
                raise Malformed
            return None
        if not self.is_bare and (name is None or reading.can_call(name)):
            reading.cursor.loosen_mark()
        held: list[str] = []
        if not (yield from cursor.json_value(held.append)):
            raise Malformed
        return "".join(held)


def _named_by_key(reading: Reading) -> Reader[None]:
    while (name := (yield from _next_key(reading))) is not None:
        reading.note_name(name, is_certain=False)
        yield from reading.cursor.spaces()
        if (yield from reading.cursor.peek()) != "{" and not reading.is_offered(name):
            raise Malformed
        reading.begin_call(name)
        yield from json_arguments.read(reading)
        reading.out.end_call()


def _next_key(reading: Reading) -> Reader[str | None]:
    """Moves behind the next key of an object and its colon, and returns the key. None: the object has ended, or its
    arguments have been read and no comma follows."""
    cursor = reading.cursor
    yield from cursor.spaces()
    has_comma = yield from cursor.literal(",")
    yield from cursor.spaces()
    if (yield from cursor.literal("}")):
        return None
    if reading.out.is_in_call and not has_comma:
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
