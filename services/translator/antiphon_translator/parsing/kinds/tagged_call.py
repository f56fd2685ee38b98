"""Calls with a tag for each argument, like those of the Qwen coders, GLM, MiniMax and DeepSeek's DSML.

The arguments are converted to JSON while they stream: strings are emitted piece by piece, other values at their end.
The tool's schema says which values are strings (values.py). An opener and a name begin a call only if a key, the end of
the call, or all arguments as one JSON object follow. A value without its closer ends before the tag of the next
parameter or of the call's end (tagged_value.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from antiphon_core.jsons import Object
from antiphon_core.limits import JSON_DEPTH_MAX
from antiphon_translator.parsing import values
from antiphon_translator.parsing.alphabet import PLACEHOLDER, plain
from antiphon_translator.parsing.cursor import Emit, Malformed, Reader
from antiphon_translator.parsing.kinds.tagged_value import (
    NO_TAGS,
    NextTags,
    ValueEnds,
    WithoutNewlines,
    all_arguments,
    body_arguments,
)
from antiphon_translator.parsing.markers import Markers
from antiphon_translator.parsing.reading import Reading

_QUOTES = ('"', "'")


@dataclass(frozen=True, kw_only=True)
class TaggedCall:
    """The syntax of tagged calls: the literals that open and close each part. `key_pattern` matches the text between
    `key_open` and `key_close`: its group `key` is the key, and its group `string`, if there is one, is "true" for a
    value that is a string and "false" for JSON."""

    open: tuple[str, ...]
    close: tuple[str, ...] = ()
    section_open: tuple[str, ...] = ()
    section_close: tuple[str, ...] = ()
    name_open: tuple[str, ...] = ()
    """Literals of which one stands between the opener and the name."""
    name_end: tuple[str, ...] = ()
    name_close: tuple[str, ...] = ()
    """Closers of a call whose tool names its tag; `{key}` in them stands for the name of the tool."""
    empty_end: tuple[str, ...] = ()
    """Literals that end both the name and the call, so that the call has no arguments."""
    key_open: tuple[str, ...]
    key_close: tuple[str, ...]
    key_pattern: str = plain(r"\s*+[\"']?\s*+(?P<key>(?:[^\"'\s]++(?:[^\S\n]++[^\"'\s]++)*+)?)[\"']?\s*")
    type_open: tuple[str, ...] = ()
    """Literals before the type of a value, which may stand between its key and the value: a word of JSON Schema."""
    type_close: tuple[str, ...] = ()
    value_open: tuple[str, ...] = ()
    value_close: tuple[str, ...]
    """Closers of a value; `{key}` in them stands for the key."""
    verbatim: tuple[str, ...] = ()
    """A pair of markers within a value, such as CDATA: the text between them is the value."""
    has_nested_values: bool = False
    """Whether the members of objects and arrays have tags of their own."""
    values_are_json: bool = False
    """Whether values are written as JSON, so that most strings have quotes."""
    trims_newlines: bool = False
    """Whether one newline before and one behind a value are markup."""

    def read(self, reading: Reading) -> Reader[None]:
        cursor = reading.cursor
        name, end = yield from self._name(reading)
        closers = _fill(self.name_close, name)
        syntax = replace(self, close=(*closers, *self.close)) if closers else self
        yield from syntax.read_behind(reading, name, end)
        if closers:
            yield from cursor.spaces()
            yield from cursor.one_of(closers)

    def read_behind(self, reading: Reading, name: str, end: str | None) -> Reader[None]:
        """Reads the call behind its name, which `end` has ended."""
        cursor = reading.cursor
        if end in self.empty_end:
            yield from self._without_arguments(reading, name)
        elif (yield from cursor.peek()) == "{":
            yield from self._body(reading, name)
        elif (yield from cursor.comes_next(self._ends)):
            yield from self._without_arguments(reading, name)
        elif (yield from cursor.one_of(self.key_open)):
            yield from self._arguments(reading, name)
        else:
            raise Malformed
        reading.out.end_call()

    def _name(self, reading: Reading) -> Reader[tuple[str, str | None]]:
        cursor = reading.cursor
        yield from cursor.spaces()
        if self.name_open and (yield from cursor.one_of(self.name_open)) is None:
            raise Malformed
        quote = yield from cursor.one_of(_QUOTES)
        name = yield from cursor.word()
        if not reading.can_call(name):
            raise Malformed
        yield from cursor.one_of((quote,) if quote else ())
        yield from cursor.spaces()
        end = yield from cursor.one_of((*self.empty_end, *self.name_end))
        reading.note_name(name, is_certain=end is not None)
        yield from cursor.spaces()
        return name, end

    def _without_arguments(self, reading: Reading, name: str) -> Reader[None]:
        """Begins a call without arguments. Malformed: the tool was not offered, as any word may stand between two
        tags; or the output ends here, so that arguments may be missing."""
        if not reading.is_offered(name):
            raise Malformed
        reading.begin_call(name)
        if (yield from reading.cursor.peek()) == "" and not self.empty_end:
            raise Malformed
        reading.out.arguments("{}")

    def _arguments(self, reading: Reading, name: str) -> Reader[None]:
        """Reads all arguments. The opener of the first key has been read."""
        cursor, out, schema = reading.cursor, reading.out, reading.schemas.get(name, {})
        tags = self._next_tags(values.names_of(schema))
        is_first = True
        while True:
            key, string_mark = yield from self._key(reading)
            if is_first:
                reading.begin_call(name)
            tags.names.discard(key)
            ends = self._value_ends(key, tags)
            if is_first and values.may_be_wrapper(schema, key):
                if (yield from self._read_wrapper(reading, ends, schema, key, string_mark)):
                    return
            else:
                out.arguments(f"{'{' if is_first else ', '}{values.string(key)}: ")
                yield from self._value(reading, ends, key, values.member(schema, key), string_mark)
            is_first = False
            yield from cursor.spaces()
            if cursor.is_at_end:
                raise Malformed
            if (yield from cursor.comes_next(self._ends)):
                out.arguments("}")
                return
            if (yield from cursor.one_of(self.key_open)) is None:
                raise Malformed

    def _key(self, reading: Reading) -> Reader[tuple[str, str | None]]:
        """Reads a key, and moves to the beginning of its value. Malformed: the key or its value is missing."""
        cursor = reading.cursor
        written: list[str] = []
        found = yield from cursor.until(self._key_close, written.append)
        match = re.fullmatch(self.key_pattern, "".join(written), re.DOTALL)
        if found not in (*self.key_close, *self.value_open) or match is None:
            cursor.back(found or "")
            raise Malformed
        string_mark = match.groupdict().get("string") or (yield from self._type_mark(reading))
        if self.value_open and found not in self.value_open:
            yield from self._open_value(reading, match["key"])
        return match["key"], string_mark

    def _type_mark(self, reading: Reading) -> Reader[str | None]:
        """Reads the type of a value, and returns the mark of a string or of JSON (`values.is_string`)."""
        cursor = reading.cursor
        if self.type_open:
            yield from cursor.spaces()
            if (yield from cursor.one_of(self.type_open)) is not None:
                name = yield from cursor.word()
                if (yield from cursor.one_of(self.type_close)) is None:
                    raise Malformed
                return "true" if name == "string" else "false"
        return "false" if self.values_are_json else None

    def _open_value(self, reading: Reading, key: str) -> Reader[None]:
        """Moves behind the opening tag of a value. Malformed: the tag is missing, and another tag comes before the
        closer of the value. GLM leaves it out at times: https://github.com/vllm-project/vllm/issues/49248."""
        cursor = reading.cursor
        yield from cursor.spaces()
        if (yield from cursor.one_of(self.value_open)) is None:
            closers = _fill(self.value_close, key)
            if (yield from cursor.find_ahead(Markers((*closers, *self.key_open, *self._ends)))) not in closers:
                raise Malformed

    def _value(
        self, reading: Reading, ends: ValueEnds, key: str, schema: Object, string_mark: str | None
    ) -> Reader[None]:
        out, types = reading.out, values.types_of(schema)
        if self.has_nested_values and (yield from self._is_nested(reading, types)):
            out.arguments((yield from self._read_nested(reading, key, schema, JSON_DEPTH_MAX)))
        elif self.verbatim and (yield from reading.cursor.comes_next(self.verbatim[:1])):
            yield from self._verbatim(reading, ends)
        elif values.is_string(types, string_mark):
            out.arguments('"')
            yield from ends.read(reading, self._trim(lambda part: out.arguments(values.string_part(part))))
            out.arguments('"')
        else:
            held = yield from self._whole_value(reading, ends)
            out.arguments(values.as_json(held, types, is_json=string_mark == "false"))

    def _whole_value(self, reading: Reading, ends: ValueEnds) -> Reader[str]:
        """Reads a value up to its end without emitting it."""
        held: list[str] = []
        yield from ends.read(reading, self._trim(held.append))
        return "".join(held)

    def _verbatim(self, reading: Reading, ends: ValueEnds) -> Reader[None]:
        out = reading.out
        yield from reading.cursor.spaces()
        if not (yield from reading.cursor.literal(self.verbatim[0])):
            raise Malformed
        out.arguments('"')
        found = yield from reading.cursor.until(
            Markers(self.verbatim[1:]), lambda part: out.arguments(values.string_part(part))
        )
        if found is None:
            raise Malformed
        out.arguments('"')
        yield from self._whole_value(reading, ends)

    def _body(self, reading: Reading, name: str) -> Reader[None]:
        """Reads all arguments as one JSON object, which may be wrapped in another one."""
        reading.begin_call(name)
        held: list[str] = []
        is_whole = yield from reading.cursor.json_value(held.append)
        written = "".join(held)
        reading.out.arguments(body_arguments(reading.schemas.get(name, {}), written) or written)
        if not is_whole:
            raise Malformed

    def _read_wrapper(
        self, reading: Reading, ends: ValueEnds, schema: Object, key: str, string_mark: str | None
    ) -> Reader[bool]:
        """Reads a value that may be the object of all arguments, and returns whether it is. Emits the object as all
        arguments, and any other value as the value of `key`."""
        text = yield from self._whole_value(reading, ends)
        is_last = yield from reading.cursor.comes_next(self._ends)
        arguments = all_arguments(schema, text) if is_last else None
        if arguments is not None:
            reading.out.arguments(arguments)
            return True
        value = values.string(text) if string_mark == "true" else values.as_json(text, values.ANYTHING)
        reading.out.arguments(f"{{{values.string(key)}: {value}")
        return False

    # ---- objects and arrays whose members have tags ----

    def _is_nested(self, reading: Reading, types: frozenset[str]) -> Reader[bool]:
        """Whether the value has tags of its own: an opening tag comes next. A value that may be a string is read as a
        string, even if it begins with a tag."""
        is_tag = "string" not in types and (yield from reading.cursor.comes_next(self.key_open))
        return is_tag and not (yield from reading.cursor.comes_next(tuple(f"{each}/" for each in self.key_open)))

    def _read_nested(self, reading: Reading, key: str, schema: Object, depth: int) -> Reader[str]:
        """Reads the value behind a key's tag up to its closer, and returns its JSON. Malformed: it is nested more than
        `depth` levels deep."""
        if not depth:
            raise Malformed
        types = values.types_of(schema)
        if not (yield from self._is_nested(reading, types)):
            text = yield from self._whole_value(reading, self._value_ends(key, NO_TAGS))
            return values.as_json(text, types)
        members: list[tuple[str, str]] = []
        closers = _fill(self.value_close, key)
        while True:
            yield from reading.cursor.spaces()
            if (yield from reading.cursor.one_of(closers)):
                return values.collect(members, schema)
            if (yield from reading.cursor.one_of(self.key_open)) is None:
                raise Malformed
            name, _ = yield from self._key(reading)
            below = values.member(schema, name)
            members.append((name, (yield from self._read_nested(reading, name, below, depth - 1))))

    # ---- markers ----

    def _trim(self, emit: Emit) -> Emit:
        return WithoutNewlines(emit) if self.trims_newlines else emit

    def _next_tags(self, names: Iterable[str]) -> NextTags:
        """The tags of these parameters. Where values have an opener too, a tag may stand within a line."""
        lines = ("\n", "") if self.value_open else ("\n",)
        openers = tuple(f"{line}{each}" for line in lines for each in self.key_open)
        return NextTags(openers, tuple(dict.fromkeys(each[0] for each in self.key_close)), set(names))

    def _value_ends(self, key: str, tags: NextTags) -> ValueEnds:
        """The texts that end the value of a key."""
        closers = _fill(self.value_close, key)
        return ValueEnds(
            (*closers, *(each[:-1] for each in closers if each.endswith(">"))),
            (*self.key_open, *self._ends),
            tags,
            tuple(f"{line}{each}" for each in (*self.close, *self.section_close) for line in ("", "\n")),
            (*self.open, *self.section_open, *self.section_close),
        )

    @cached_property
    def _ends(self) -> tuple[str, ...]:
        """Literals that can follow the arguments."""
        return (*self.close, *self.section_close, *self.open, *self.section_open)

    @cached_property
    def _key_close(self) -> Markers:
        return Markers((*self.key_close, *self.value_open, *self._ends))


def _fill(literals: Iterable[str], word: str) -> tuple[str, ...]:
    """Literals with the name of the tool or the key in place of `{key}`."""
    return tuple(each.replace(PLACEHOLDER, word) for each in literals)
