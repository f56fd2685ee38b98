"""The output of Kimi K3: nested tags, `<|open|>call tool="f" index="1"<|sep|>...<|close|>call<|sep|>`.

Text stands in `think`, `response` or `argument`. Arguments have a type, and are converted to JSON while they stream.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from html import unescape

from antiphon_translator.parsing import values
from antiphon_translator.parsing.cursor import Emit, Malformed, Reader
from antiphon_translator.parsing.markers import Markers
from antiphon_translator.parsing.mention import follows_a_word, is_mentioned
from antiphon_translator.parsing.reading import Reading

_TAG = re.compile(r"\s*(?P<name>\w+)(?P<rest>(?:\s+\w+=\"[^\"]*\")*)\s*")
_CUT_TAG = re.compile(r"\s*\w*(?:\s+\w+=\"[^\"]*\")*(?:\s+\w+(?:=(?:\"[^\"]*)?)?)?\s*")
_TAGS = ("think", "response", "tools", "call", "argument", "message")
_ATTRIBUTE = re.compile(r'(\w+)="([^"]*)"')


@dataclass(frozen=True)
class Xtml:
    opening: str = "<|open|>"
    closing: str = "<|close|>"
    separator: str = "<|sep|>"

    def read(self, reading: Reading, prompt_tail: str) -> Reader[None]:
        """Reads the whole output of a turn."""
        document = _Document(reading)
        tag, ended, rest = prompt_tail.rpartition(self.opening)[2].partition(self.separator)
        if ended and not rest.strip():  # the prompt has opened this tag
            document.open(tag.partition(" ")[0], {})
        while (bracket := (yield from reading.cursor.until(self._brackets, document.emit))) is not None:
            is_text = yield from is_mentioned(reading.cursor, bracket)
            if is_text or not (yield from self._tag(document, bracket)):
                document.emit(bracket)

    def _tag(self, document: _Document, bracket: str) -> Reader[bool]:
        """Reads the tag behind a bracket. False: it is no tag, and the bracket is text."""
        cursor = document.reading.cursor
        before = cursor.behind(bracket)
        written: list[str] = []
        cursor.mark()
        try:
            found = yield from cursor.until(self._any, written.append)
            tag = _TAG.fullmatch("".join(written))
            if found is None and not follows_a_word(before):
                cursor.unmark()
                document.end_within_tag(bracket + "".join(written), "".join(written))
                return True
            if found == self.separator and tag is not None:
                cursor.unmark()
                document.take(tag["name"], tag["rest"], opens=bracket == self.opening)
                return True
        except Malformed:
            pass
        cursor.rewind()
        cursor.unmark()
        return False

    @cached_property
    def _brackets(self) -> Markers:
        return Markers((self.opening, self.closing))

    @cached_property
    def _any(self) -> Markers:
        return Markers((self.opening, self.closing, self.separator))


@dataclass
class _Document:
    """The open tags, and the argument that is being read."""

    reading: Reading
    tags: list[str] = field(default_factory=list)
    argument_type: str = ""
    held: list[str] = field(default_factory=list)
    separator: str = "{"
    noise: int = 0
    """How many characters besides white space the current call has between its arguments."""

    @property
    def emit(self) -> Emit:
        """The function that gets the text up to the next tag."""
        out = self.reading.out
        match self.tags[-1] if self.tags else "":
            case "think":
                return out.reasoning
            case "response":
                return out.text
            case "argument" if out.is_in_call:
                return self._add_string if self.argument_type == "string" else self.held.append
            case _:
                return self._add_noise if out.is_in_call else out.text

    def _add_string(self, text: str) -> None:
        self.reading.out.arguments(values.string_part(text))

    def _add_noise(self, text: str) -> None:
        self.noise += len("".join(text.split()))

    def take(self, tag: str, rest: str, *, opens: bool) -> None:
        if opens:
            self.open(tag, {key: unescape(value) for key, value in _ATTRIBUTE.findall(rest)})
        else:
            self.close(tag)

    def open(self, tag: str, attributes: Mapping[str, str]) -> None:
        self.tags.append(tag)
        out = self.reading.out
        if tag == "call" and self.reading.can_call(attributes.get("tool", "")):
            self.separator = "{"
            self.reading.begin_call(attributes["tool"])
        elif tag == "argument" and out.is_in_call:
            self.argument_type = attributes.get("type", "string")
            self.held.clear()
            out.arguments(f"{self.separator}{values.string(attributes.get('key', ''))}: ")
            out.arguments('"' if self.argument_type == "string" else "")
            self.separator = ", "

    def end_within_tag(self, text: str, tag: str) -> None:
        """Shows a tag in which the output ended: as an incomplete call of its tool, or as text if it is no tag."""
        out, tool = self.reading.out, dict(_ATTRIBUTE.findall(tag)).get("tool", "")
        word = tag.strip().partition(" ")[0]
        if word == "call" and not out.is_in_call:
            self.reading.note_name(unescape(tool))
        is_tag = _CUT_TAG.fullmatch(tag) is not None and any(each.startswith(word) for each in _TAGS)
        if self.reading.name is None and (out.is_in_call or is_tag):
            out.unread("markers", len(text))
        else:
            self.reading.show_unread(text)

    def close(self, tag: str) -> None:
        if tag in self.tags:
            del self.tags[len(self.tags) - 1 - self.tags[::-1].index(tag) :]
        out = self.reading.out
        if tag == "argument" and out.is_in_call:
            is_string = self.argument_type == "string"
            out.arguments('"' if is_string else values.as_json("".join(self.held), frozenset({self.argument_type})))
        elif tag == "call" and out.is_in_call:
            out.arguments("{}" if self.separator == "{" else "}")
            out.end_call()
            if self.noise:
                out.unread("noise", self.noise)
            self.noise = 0
