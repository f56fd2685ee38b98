"""Reads the chunks of one chat completions stream as segments.

Rule 1: no answer is lost for a side matter. Usage, finish reasons, log probabilities and unknown members are read where
they can be read, and reported as unread where they cannot (unread.py). A stream fails only when its server says that
the generation was broken off.

Rule 2: a call ends when no later piece can change it (chat_calls.py): at the end of the stream, or when its arguments
are a whole object and something else follows.

Rule 3: items come in the order in which they began. The item in front is passed on piece by piece. What begins behind a
call whose arguments are not whole waits for it: clients read the calls of a response one after the other, as OpenAI
sends them (docs/adr/0117-calls-are-joined-by-index.md).

The request asked for one choice, so other choices are ignored. A stream with more than OUTPUT_ITEMS_MAX calls ends
there, as one that reached its token limit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from antiphon_core.errors import EngineFault
from antiphon_core.jsons import Object
from antiphon_core.limits import ENGINE_TEXT_BYTES_MAX
from antiphon_translator.engines import chat_usage
from antiphon_translator.engines.chat_calls import Call, CallPiece, CallTable
from antiphon_translator.engines.chat_delta import (
    Kind,
    Piece,
    TextPiece,
    finish_reason_in,
    list_member,
    pieces_of,
    plain_text_of,
)
from antiphon_translator.engines.finish_reasons import finish_reason
from antiphon_translator.engines.lenient_json import Halves
from antiphon_translator.engines.stream_budget import PIECE_CHARS
from antiphon_translator.engines.unread import UnreadReport
from antiphon_translator.engines.usage_bounds import UsageBounds
from antiphon_translator.generation import ChatChunk, FinishReason, ReportedUsage
from antiphon_translator.parsing.segments import Output, Reasoning, Refusal, Segment, Text

WAITING_PIECE_CHARS = 16
"""The characters that a piece which waits counts as, beside its own: its objects take more memory than one letter."""


class ChunkReader:
    """Reads the chunks of one stream. `names` are those of the functions that the request offers. The answer ends at
    the first of `stops`. Counts beyond `bounds` are left out of the usage."""

    def __init__(
        self,
        unread: UnreadReport,
        names: Collection[str] = (),
        stops: Sequence[str] = (),
        bounds: UsageBounds | None = None,
    ) -> None:
        self.content_chars = 0
        self._unread = unread
        self._bounds = bounds
        self._output = Output(stops)
        self._calls = CallTable(names)
        self._halves: dict[Kind, Halves] = {kind: Halves() for kind in (Text, Reasoning, Refusal)}
        self._front: Call | None = None
        self._has_begun = False
        """The call in front was begun in the output."""
        self._waiting: deque[TextPiece | Call] = deque()
        self._waiting_chars = 0
        self._kinds: set[type] = set()
        """The kinds of pieces so far, by which a message that repeats them is known."""
        self._finish: FinishReason | None = None
        self._usage: ReportedUsage | None = None
        self._has_ended = False
        """The server ended the stream, as it ends one with an answer, without any finish reason."""

    @property
    def is_complete(self) -> bool:
        """Whether the server sent the finish reason, or ended the stream of an answer without any."""
        return self._finish is not None or (self._has_ended and bool(self._kinds))

    def read(self, chunk: Object) -> ChatChunk | None:
        """Reads a chunk and returns its segments. EngineFault, EngineOverloaded, EngineTimeout: the chunk says that the
        generation was broken off."""
        choices = list_member(chunk.get("choices"))
        if (usage := chat_usage.given_in(chunk)) is not None:
            self._usage = chat_usage.merge_usage(self._usage, usage, self._unread)
            self._has_ended = not choices  # `include_usage` is answered behind the answer
        for choice in choices:
            if not isinstance(choice, dict):
                self._unread.note("choices", choice)
            elif choice.get("index") in (0, None, "0"):
                self._take_choice(choice)
        if self._calls.is_full:
            self._finish = FinishReason.LENGTH
            return self.finish()
        segments = self._take_segments()
        if self._output.is_stopped:
            return ChatChunk(segments=segments, finish=FinishReason.STOP, usage=self._plausible_usage())
        return ChatChunk(segments=segments) if segments else None

    @property
    def _is_cut_off(self) -> bool:
        """Whether the server said that it ended the answer before the model was done."""
        return self._finish not in (None, FinishReason.STOP)

    def note_done(self) -> None:
        self._has_ended = True

    def finish(self) -> ChatChunk:
        """Returns the last chunk: what was held back, the finish reason and the usage."""
        if self._finish is None:
            self._unread.note("finish_reason", None)
        self._output.is_cut_off = self._is_cut_off
        for kind, halves in self._halves.items():
            self._take_text(kind, halves.feed("", is_last=True))
        self._end_front()
        while self._waiting:
            self._bring_to_front()
            self._end_front()
        self._output.finish()
        return ChatChunk(segments=self._take_segments(), finish=self._finish, usage=self._plausible_usage())

    def _plausible_usage(self) -> ReportedUsage | None:
        if self._usage is None or self._bounds is None:
            return self._usage
        usage = self._bounds.plausible(self._usage, received_chars=self.content_chars)
        if usage != self._usage:
            self._unread.note("usage", asdict(self._usage))
        return usage

    def _take_segments(self) -> list[Segment]:
        """Takes the segments that are ready."""
        return self._output.take()

    # ---- what a choice says ----

    def _take_choice(self, choice: Mapping[str, Any]) -> None:
        if (text := plain_text_of(choice)) and self._front is None:  # nearly every chunk
            self._kinds.add(Text)
            self.content_chars += PIECE_CHARS + len(text)
            self._write(Text, self._halves[Text].feed(text))
            return
        for piece in self._pieces(choice):
            self._kinds.add(_kind(piece))
            if isinstance(piece, TextPiece):
                self._take_text(piece.kind, self._halves[piece.kind].feed(piece.text))
            else:
                self._take_call(piece)
        if usage := choice.get("usage"):  # Moonshot
            self._usage = chat_usage.merge_usage(self._usage, usage, self._unread)
        if reason := finish_reason_in(choice):
            self._take_finish_reason(reason)

    def _take_finish_reason(self, given: object) -> None:
        reason = finish_reason(given)
        if reason is None:
            self._unread.note("finish_reason", given)
        self._finish = reason or FinishReason.STOP

    def _pieces(self, choice: Mapping[str, Any]) -> list[Piece]:
        """The pieces of a choice. Some servers send no deltas but the whole message, and some repeat it at the end."""
        found = list(pieces_of(choice, self._unread))
        if found or not isinstance(message := choice.get("message"), dict):
            return found
        return [piece for piece in pieces_of({"delta": message}, self._unread) if _kind(piece) not in self._kinds]

    # ---- the order of items ----

    def _take_text(self, kind: Kind, text: str) -> None:
        if not text:
            return
        self.content_chars += PIECE_CHARS + len(text)
        if self._front is None:
            self._write(kind, text)
        else:
            self._hold(TextPiece(kind, text))

    def _write(self, kind: Kind, text: str) -> None:
        if kind is Text:
            self._output.text(text)
        elif kind is Reasoning:
            self._output.reasoning(text)
        else:
            self._output.refusal(text)

    def _take_call(self, piece: CallPiece) -> None:
        call = self._calls.add(piece)
        if call is None:
            return
        if call.is_ended:
            self._note_late(piece, call)
            return
        if piece.arguments or not call.has_place:
            self.content_chars += PIECE_CHARS + len(piece.arguments)
        if call is self._front:
            self._pass_on()
        elif not call.has_place:
            call.has_place = True
            self._hold(call)
        if call is not self._front or call.is_held:
            self._count_waiting(len(piece.arguments))
        self._let_through()

    def _hold(self, item: TextPiece | Call) -> None:
        """Lets an item wait, for no longer than the call in front needs it."""
        self._waiting.append(item)
        self._count_waiting(len(item.text) if isinstance(item, TextPiece) else 0)
        self._let_through()

    def _let_through(self) -> None:
        """Ends the calls in front that are proven, as long as something waits behind them."""
        while self._waiting and (self._front is None or self._front.is_proven):
            self._end_front()
            self._bring_to_front()

    def _bring_to_front(self) -> None:
        item = self._waiting.popleft()
        if isinstance(item, TextPiece):
            self._write(item.kind, item.text)
        else:
            self._front = item
            self._pass_on()
        if not self._waiting:
            self._waiting_chars = 0

    def _pass_on(self) -> None:
        """Passes the arguments of the call in front on. A call begins with them: its name may come in pieces."""
        call = self._front
        if call is not None and call.name and (arguments := call.take()):
            self._begin(call)
            self._output.arguments(arguments)

    def _begin(self, call: Call) -> None:
        if not self._has_begun:
            self._output.begin_call(call.name, call.id)
            self._has_begun = True

    def _end_front(self) -> None:
        """Ends the call in front. Arguments without any name are no call, and become text."""
        call, self._front = self._front, None
        if call is None:
            return
        rest = call.take_rest(is_cut_off=self._is_cut_off)
        if call.name:
            self._begin(call)
            self._output.arguments(rest)
            self._output.end_call()
        elif call.has_arguments:
            self._unread.note("tool_calls", call.arguments)
            self._output.text(rest)
        self._has_begun, call.is_ended = False, True

    def _note_late(self, piece: CallPiece, call: Call) -> None:
        """Reports arguments behind a whole object, unless they repeat it: with them, it would be no JSON."""
        if piece.arguments.strip() and piece.arguments != call.arguments:
            self._unread.note("tool_calls", piece.arguments)

    def _count_waiting(self, chars: int) -> None:
        self._waiting_chars += chars + WAITING_PIECE_CHARS
        if self._waiting_chars > ENGINE_TEXT_BYTES_MAX:
            raise EngineFault("The engine sent too much behind a call that it did not complete.")


def _kind(piece: Piece) -> type:
    return piece.kind if isinstance(piece, TextPiece) else CallPiece
