"""The output of gpt-oss: messages with a header, `<|channel|>commentary to=functions.f<|message|>...<|call|>`.

https://cookbook.openai.com/articles/openai-harmony. Headers are malformed now and then, and the text behind such a
header must not be lost: the last channel and the last recipient in a header count, wherever they are in it. Words in a
header that no message follows are shown, and a call of its recipient is incomplete. A marker that a message only
mentions does not end the message.

    to a function, any channel            a call
    analysis, or to another recipient     reasoning
    commentary                            a message, the preamble of the calls
    final, anything else                  a message
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from antiphon_translator.parsing.alphabet import is_token
from antiphon_translator.parsing.cursor import Emit, Reader
from antiphon_translator.parsing.kinds import json_arguments
from antiphon_translator.parsing.markers import Markers
from antiphon_translator.parsing.mention import is_mentioned
from antiphon_translator.parsing.reading import Reading

_NAMESPACE = "functions."
_RECIPIENT = re.compile(r"to=([\w.-]+)")
_ROLE = re.compile(r"\s*(?:(?:assistant|analysis|commentary|final)\s*)?(?:to=\S*\s*)?")
_ROLE_ONLY = re.compile(r"\s*(?:assistant\s*)?(?:to=\S*\s*)?")
_HEADER_WORDS = r"\s|(?:assistant|analysis|commentary|final|json|to=[\w.-]*)(?![^\s<\ud800-\udfff])"
_NOBODY = ("", "assistant")
_ROLE_PARTS = ("to=", "assistant")


@dataclass(frozen=True)
class Harmony:
    channel: str = "<|channel|>"
    constrain: str = "<|constrain|>"
    message: str = "<|message|>"
    start: str = "<|start|>"
    ends: tuple[str, ...] = ("<|end|>", "<|call|>", "<|return|>")

    def read(self, reading: Reading, prompt_tail: str) -> Reader[None]:
        """Reads the whole output of a turn."""
        header = prompt_tail.rpartition(self.start)[2] if self.start in prompt_tail else ""
        ended = False
        if self.message in header:  # the model goes on with a message
            ended = yield from self._message(reading, header.partition(self.message)[0], is_begun=True)
            header = ""
        while not ended:
            written = yield from self._header(reading)
            if written is None:
                return
            ended = yield from self._message(reading, header + written)
            header = ""

    def _header(self, reading: Reading) -> Reader[str | None]:
        """Reads the header of the next message, and returns it; None if no message follows. Text in place of a header
        may mention markers."""
        cursor = reading.cursor
        written: list[str] = []
        is_text, has_words = True, False
        while (found := (yield from cursor.until(self._markers, written.append))) is not None:
            is_mention = is_text and (yield from is_mentioned(cursor, found))
            has_words = has_words or _ROLE.fullmatch("".join(written)) is None
            if not is_mention and found in self._breaks:
                cursor.back(found)  # the cursor must stand right behind a text when the text is emitted
                if "".join(written).strip():
                    self._end_without_message(reading, "".join(written), is_text=is_text)
                yield from cursor.literal(found)
                written.clear()
                is_text, has_words = found != self.start, False
                continue
            is_text = is_text and (is_mention or has_words)
            if found == self.message and not is_text:
                return "".join(written)
            written.append(found)
        self._end_without_message(reading, "".join(written), is_text=is_text)
        return None

    def _message(self, reading: Reading, header: str, *, is_begun: bool = False) -> Reader[bool]:
        """Reads the message behind a header. Returns whether the text ended with the message."""
        channel, recipient = self._channel_of(header), _recipient_of(header)
        name = _tool_name(reading, recipient)
        if name is not None:
            return (yield from self._call(reading, name))
        phase = "commentary" if channel == "commentary" else None
        if not is_begun and self._has_other_words(header) and (yield from self._is_empty(reading)):
            reading.cursor.back(self.message)  # the cursor must stand right behind a text when the text is emitted
            self._show_header(reading, header)  # the message is empty: the header is all that was written
            yield from reading.cursor.literal(self.message)
        elif phase is not None or not is_begun:
            reading.out.separate(phase)
        is_reasoning = channel == "analysis" or recipient not in _NOBODY
        return (yield from self._to_end(reading, reading.out.reasoning if is_reasoning else reading.out.text))

    def _is_empty(self, reading: Reading) -> Reader[bool]:
        """Whether the message ends where it begins. One that is cut off there may go on."""
        cursor = reading.cursor
        if not (yield from cursor.peek()):
            return not cursor.is_cut_off
        return (yield from cursor.comes_next(self.ends))

    def _has_other_words(self, header: str) -> bool:
        words = self._header_words.match(header)
        return bool(header[words.end() if words is not None else 0 :].strip())

    def _call(self, reading: Reading, name: str) -> Reader[bool]:
        reading.begin_call(name)
        yield from reading.cursor.spaces()
        is_object = (yield from reading.cursor.peek()) == "{"
        if is_object and not is_token(self.message):
            yield from reading.cursor.json_value(reading.out.arguments)  # its strings may spell markers
        held: list[str] = []
        emit = reading.out.arguments if is_object else held.append
        ended = (yield from reading.cursor.until(self._message_end, emit)) is None
        written = "".join(held)
        reading.out.arguments((written.strip() and json_arguments.unwrap(written)) or written)
        if not reading.out.has_arguments and not (ended and reading.cursor.is_cut_off):
            reading.out.arguments("{}")
        reading.out.end_call()
        return ended

    def _to_end(self, reading: Reading, emit: Emit) -> Reader[bool]:
        while (found := (yield from reading.cursor.until(self._message_end, emit))) is not None:
            if (yield from reading.cursor.comes_next((self.start,))):
                return False  # or the output ends here
            if not (yield from is_mentioned(reading.cursor, found)):
                return False
            emit(found)
        return True

    def _end_without_message(self, reading: Reading, text: str, *, is_text: bool) -> None:
        """Shows the text right before the cursor, which no message follows: it stands in place of a header, or is a
        header whose message is missing."""
        is_header = not is_text or text.rstrip().endswith(("<", "<|"))
        if is_header or self._is_role(text, is_cut_off=reading.cursor.is_cut_off):
            self._show_header(reading, text)
        else:
            reading.out.text(text)

    def _show_header(self, reading: Reading, header: str) -> None:
        """Shows a header without a message: as an incomplete call of its recipient, or else what it has besides the
        words of a header."""
        cursor, called = reading.cursor, _tool_name(reading, _recipient_of(header))
        if cursor.is_cut_off and cursor.is_at_end:
            return  # half a header, and maybe half a name
        reading.name = called if called is not None and reading.is_offered(called) else None
        words = self._header_words.match(header)
        body = header[words.end() if words is not None else 0 :].removesuffix("<|").removesuffix("<").rstrip()
        if reading.name is not None:
            reading.show_unread(header)
        elif not body:
            reading.out.unread("markers", len(header))
        else:
            behind = header[header.rindex(body) + len(body) :]
            reading.out.separate()
            cursor.back(behind)
            (reading.out.reasoning if self._channel_of(header) == "analysis" else reading.out.text)(body)
            cursor.forth(behind)
            reading.out.unread("text", len(header))

    @staticmethod
    def _is_role(text: str, *, is_cut_off: bool) -> bool:
        """Whether a text is the role and recipient behind a start marker, or the beginning of them."""
        is_whole = bool(text.strip()) and _ROLE_ONLY.fullmatch(text) is not None
        return is_whole or (is_cut_off and _begins_role(text))

    def _channel_of(self, header: str) -> str:
        found: list[str] = self._channel.findall(header)
        return found[-1] if found else ""

    @cached_property
    def _breaks(self) -> tuple[str, ...]:
        """The markers before which a header cannot go on."""
        return (self.start, *self.ends)

    @cached_property
    def _header_words(self) -> re.Pattern[str]:
        markers = map(re.escape, (self.channel, self.constrain, self.start, *self.ends))
        return re.compile(f"(?:{_HEADER_WORDS}|{'|'.join(markers)})*")

    @cached_property
    def _markers(self) -> Markers:
        return Markers((self.channel, self.constrain, self.message, self.start, *self.ends))

    @cached_property
    def _message_end(self) -> Markers:
        return Markers((self.start, *self.ends))

    @cached_property
    def _channel(self) -> re.Pattern[str]:
        return re.compile(rf"{re.escape(self.channel)}\s*(\w+)")


def _begins_role(text: str) -> bool:
    """Whether a text may be the beginning of a role or a recipient."""
    return any(part.startswith(text.strip()) for part in _ROLE_PARTS)


def _recipient_of(header: str) -> str:
    found: list[str] = _RECIPIENT.findall(header)
    return found[-1] if found else ""


def _tool_name(reading: Reading, recipient: str) -> str | None:
    """The name of the tool that a recipient is; None if it is none that can be called."""
    name = recipient.removeprefix(_NAMESPACE)
    is_tool = name not in _NOBODY and (recipient != name or name in reading.schemas) and reading.can_call(name)
    return name if is_tool else None
