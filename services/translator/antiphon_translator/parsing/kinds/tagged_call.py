"""Calls with a tag for each argument, as the Qwen coders, GLM, MiniMax and DeepSeek's DSML write them.

The arguments become JSON as they come: strings stream, everything else waits for its end, and the tool's schema says
which is which (values.py). A value may well speak of tags, so a closing tag ends it only where the table allows what
follows; and where it is missing, the tag of another parameter of this very tool ends it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from antiphon_translator.parsing import values
from antiphon_translator.parsing.alphabet import is_token
from antiphon_translator.parsing.cursor import Emit, Markers, Reader
from antiphon_translator.parsing.kinds.tagged_value import ValueEnds, WithoutNewlines, next_tags
from antiphon_translator.parsing.reading import Malformed, Reading


@dataclass(frozen=True, kw_only=True)
class TaggedCall:
    """`key_pattern` finds the key in what stands between `key_open` and `key_close`, and in `string` whether the model
    says that the value is one ("true") or JSON ("false")."""

    open: tuple[str, ...]
    close: tuple[str, ...] = ()
    section_open: tuple[str, ...] = ()
    section_close: tuple[str, ...] = ()
    name_end: tuple[str, ...]
    empty_end: tuple[str, ...] = ()
    """Ends the name and the whole call: there are no arguments."""
    arguments_close: tuple[str, ...] = ()
    """Ends the arguments within the call."""
    key_open: tuple[str, ...]
    key_close: tuple[str, ...]
    key_pattern: str = r"\s*\"?(?P<key>.*?)\"?\s*"
    value_open: tuple[str, ...] = ()
    value_close: tuple[str, ...]
    """`{key}` in it stands for the key."""
    after_value: tuple[str, ...] = ()
    """What a value's closer must be followed by to count; empty for anything."""
    forgets_closers: bool = False
    """The model leaves `value_close` out at times."""
    closing_tokens: tuple[str, ...] = ()
    """End a value that has no closer, but only as control tokens: a value may well spell them."""
    trims_newlines: bool = False
    """One newline on either side of a value is markup."""

    def read(self, reading: Reading) -> Reader[None]:
        name, end = yield from self._name(reading)
        reading.begin_call(name)
        if end in self.empty_end:
            reading.out.arguments("{}")
            reading.out.end_call()
            return
        end = yield from self._arguments(reading, name, end)
        reading.out.end_call()
        if end in self.arguments_close:
            yield from reading.cursor.spaces()
            yield from reading.cursor.one_of(self.close)

    def _arguments(self, reading: Reading, name: str, end: str | None) -> Reader[str]:
        """From behind the name on, which `end` ended; what ended the arguments."""
        out, schema = reading.out, reading.schemas.get(name)
        given: list[str] = []
        while end not in self._ends:
            if end in self.key_open:
                key, says_string = yield from self._key(reading)
                out.arguments(f"{', ' if given else '{'}{values.string(key)}: ")
                given.append(key)
                ends = self._value_ends(key, set(values.names_of(schema)).difference(given))
                yield from self._value(reading, ends, values.types_of(schema, key), says_string)
            end = yield from reading.cursor.until(self._next, out.drop)
            if end is None:
                raise Malformed
        out.arguments("}" if given else "{}")
        return end or ""

    def _name(self, reading: Reading) -> Reader[tuple[str, str]]:
        written: list[str] = []
        end = yield from reading.cursor.until(self._name_end, written.append)
        name = "".join(written).strip().strip("\"'")
        if end is None or not name:
            raise Malformed
        return name, end

    def _key(self, reading: Reading) -> Reader[tuple[str, str | None]]:
        written: list[str] = []
        if (yield from reading.cursor.until(self._key_close, written.append)) is None:
            raise Malformed
        match = re.fullmatch(self.key_pattern, "".join(written), re.DOTALL)
        if match is None:
            raise Malformed
        if self.value_open and (yield from reading.cursor.until(self._value_open, reading.out.drop)) is None:
            raise Malformed
        return match["key"], match.groupdict().get("string")

    def _value(self, reading: Reading, ends: ValueEnds, types: frozenset[str], says_string: str | None) -> Reader[None]:
        out = reading.out
        if types == values.STRING if says_string is None else says_string == "true":
            out.arguments('"')
            yield from ends.read(reading, self._trimmed(lambda part: out.arguments(values.string_part(part))))
            out.arguments('"')
        else:
            held: list[str] = []
            yield from ends.read(reading, self._trimmed(held.append))
            out.arguments(values.as_json("".join(held), types))

    def _trimmed(self, emit: Emit) -> Emit:
        return WithoutNewlines(emit) if self.trims_newlines else emit

    def _value_ends(self, key: str, missing: Iterable[str]) -> ValueEnds:
        """What ends the value of a key, when the `missing` parameters have not been given yet."""
        others = tuple(filter(is_token, self.closing_tokens))
        if self.forgets_closers:
            tags = next_tags(missing, self.key_open, self.key_close)
            others = (*others, *tags, *(f"\n{one}\n{other}" for one in self.arguments_close for other in self.close))
        return ValueEnds(tuple(each.replace("{key}", key) for each in self.value_close), self.after_value, others)

    @cached_property
    def _ends(self) -> frozenset[str]:
        return frozenset((*self.arguments_close, *self.close))

    @cached_property
    def _name_end(self) -> Markers:
        return Markers((*self.name_end, *self.empty_end, *self.key_open, *self._ends))

    @cached_property
    def _next(self) -> Markers:
        return Markers((*self.key_open, *self._ends))

    @cached_property
    def _key_close(self) -> Markers:
        return Markers(self.key_close)

    @cached_property
    def _value_open(self) -> Markers:
        return Markers(self.value_open)
