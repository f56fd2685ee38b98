"""The first difference between the prompt of a response and an earlier prompt with its output, and its cause.

The cause is found by experiment, with the model's own template: the later prompt is rendered with one thing taken from
the earlier one (the time, the tools, the instructions, an item). The difference is due to that thing if it goes away.
If all things are the same and the texts differ, the template has written the same items otherwise.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object, join_arrays, loads
from antiphon_core.ports.translator import NO_ITEMS
from antiphon_core.request.context import COMPACTION
from antiphon_translator.conversation import Conversation, Message
from antiphon_translator.diagnosis.causes import Cause, is_time
from antiphon_translator.diagnosis.ended_prompt import EndedPrompt
from antiphon_translator.media.turn_media import TurnMedia
from antiphon_translator.models.served_model import ServedModel
from antiphon_translator.turn import turn_prompt

EXCERPT_CHARS = 200
_LEAD_CHARS = 40
"""Characters of an excerpt before the difference."""
_PIECES = 8
"""Tokens of an excerpt that shows how a text was cut into tokens."""
_PIECE_MARK = "│"
_WORD_END = re.compile(r"\S\s")


@dataclass(frozen=True, slots=True)
class Difference:
    """The first difference. `token` and `char` are its place in the later prompt, None where it is not known. `path` is
    that of the item, of the tool or of the parameter, with the `item_id` if it is an item's. `before` and `after` are
    what both prompts have there."""

    cause: Cause
    token: int | None = None
    char: int | None = None
    path: str | None = None
    item_id: str | None = None
    before: str = ""
    after: str = ""


class Comparison:
    """Compares the prompt `now` with an earlier one. Both are of one model."""

    def __init__(self, model: ServedModel, before: EndedPrompt, now: EndedPrompt, media: TurnMedia) -> None:
        self._model = model
        self._before = before
        self._now = now
        self._media = media
        self.reusable_tokens = common_length(before.whole_ids, now.ids)
        """The ids at the beginning of both."""

    @property
    def is_exact(self) -> bool:
        """Whether both texts are proved."""
        return self._before.is_exact and self._now.is_exact

    @property
    def has_ids(self) -> bool:
        """Whether the ids of both are known, and so the tokens that they share."""
        return self._before.has_ids and self._now.has_ids

    def difference(self) -> Difference | None:
        """The first difference; None if one prompt is the beginning of the other one, as far as is known."""
        if not self.is_exact:
            return self._difference_of_items()
        before, now = self._before, self._now
        place = common_length(before.whole_text, now.text)
        image = self._changed_image(place)
        if image is not None:
            return image
        shorter = min(len(before.whole_ids), len(now.ids))
        if self.reusable_tokens == shorter:
            return None
        if place >= min(len(before.whole_text), len(now.text)) or self._is_cut_otherwise(place):
            return self._other_ids() if self.has_ids else None
        return self._find_cause(place)

    # ---- Differences that are not in the text ----

    def _changed_image(self, place: int) -> Difference | None:
        """The first other image before the place where the texts differ."""
        before, now, mark = self._before.image_contents, self._now.image_contents, self._model.prompt.image_mark
        shared = min(self._now.text[:place].count(mark), len(before), len(now)) if mark else 0
        index = next((index for index in range(shared) if before[index] != now[index]), None)
        if index is None:
            return None
        at = [match.start() for match in re.finditer(re.escape(mark), self._now.text)][index]
        owners = [place for place, message in enumerate(self._now.conversation.messages) for _ in message.images]
        token = self._token_at(at) if self.has_ids else None
        return replace(self._at(Cause.IMAGES, at, self._path(owners[index])), token=token)

    def _is_cut_otherwise(self, place: int) -> bool:
        """Whether the ids differ in a word that ends before the texts differ: no difference behind it explains that."""
        spelt = b"".join(map(self._model.tokenizer.bytes_of, self._now.ids[: self.reusable_tokens]))
        begin = len(spelt.decode("utf-8", "ignore"))
        return self._now.text.startswith(spelt.decode("utf-8", "ignore")) and bool(
            _WORD_END.search(self._now.text, begin, place)
        )

    def _other_ids(self) -> Difference:
        first = self.reusable_tokens
        spelt = b"".join(map(self._model.tokenizer.bytes_of, self._now.ids[:first]))
        at = len(spelt.decode("utf-8", "ignore"))
        found = self._at(Cause.RETOKENISED, at, self._path_at(at))
        return replace(found, before=self._pieces(self._before.whole_ids), after=self._pieces(self._now.ids))

    def _pieces(self, ids: Sequence[int]) -> str:
        some = ids[self.reusable_tokens : self.reusable_tokens + _PIECES]
        return _PIECE_MARK.join(self._model.tokenizer.bytes_of(each).decode("utf-8", "replace") for each in some)

    # ---- Differences in the text ----

    def _find_cause(self, place: int) -> Difference:
        for cause, path, changed in self._experiments():
            if self._moves(place, *changed):
                is_clock = cause in (Cause.INSTRUCTIONS, Cause.INPUT) and self._is_time(place)
                return self._at(Cause.TIME if is_clock else cause, place, path)
        if self._moves(place, self._all_of_before(), self._before.turn.created_at, self._before.prompt.switches):
            return self._at(Cause.UNKNOWN, place)  # several things together
        return self._at(Cause.TEMPLATE_REWROTE, place, self._path_at(place))

    def _experiments(self) -> Iterator[tuple[Cause, str | None, tuple[Conversation, int, Any]]]:
        """Each thing that differs, and the later prompt (conversation, time, switches) with that thing of the earlier
        one."""
        before, now = self._before, self._now
        there, here = before.conversation, now.conversation
        now_s, switches = now.turn.created_at, now.prompt.switches
        yield Cause.TIME, None, (here, before.turn.created_at, switches)
        if there.tools != here.tools:
            yield Cause.TOOLS, _tool_path(there, here), (replace(here, tools=there.tools), now_s, switches)
        if _opening(there) != _opening(here):
            opened = here.with_messages((*_opening(there), *here.messages[len(_opening(here)) :]))
            yield Cause.INSTRUCTIONS, self._opening_path(), (opened, now_s, switches)
        if before.prompt.switches != switches:
            yield Cause.REASONING_EFFORT, "reasoning.effort", (here, now_s, before.prompt.switches)
        index, earlier = self._first_other_message()
        if index is not None:
            mended = here.with_messages((*earlier[: index + 1], *here.messages[index + 1 :]))
            yield self._cause_of_items(), self._path(index), (mended, now_s, switches)

    def _all_of_before(self) -> Conversation:
        """The later conversation, as far as possible with what the earlier one has."""
        index, earlier = self._first_other_message()
        kept = len(earlier) if index is None else index + 1
        messages = (*earlier[:kept], *self._now.conversation.messages[kept:])
        return replace(self._now.conversation.with_messages(messages), tools=self._before.conversation.tools)

    def _moves(self, place: int, conversation: Conversation, now_s: int, switches: Any) -> bool:
        """Whether the difference at `place` is gone in another prompt."""
        try:
            text = self._model.prompt.render(conversation, now_s=now_s, switches=switches)
        except InvalidRequest:
            return False
        return common_length(self._before.whole_text, text) > place

    def _is_time(self, place: int) -> bool:
        return is_time(self._before.whole_text, self._now.text, place)

    # ---- Items ----

    def _difference_of_items(self) -> Difference | None:
        """A difference of what both prompts are made of, where their text is not known. Its place is not known."""
        there, here = self._before, self._now
        if there.conversation.tools != here.conversation.tools:
            return Difference(Cause.TOOLS, path=_tool_path(there.conversation, here.conversation))
        if _opening(there.conversation) != _opening(here.conversation):
            return Difference(Cause.INSTRUCTIONS, path=self._opening_path())
        if there.prompt.switches != here.prompt.switches:
            return Difference(Cause.REASONING_EFFORT, path="reasoning.effort")
        index, earlier = self._first_other_message()
        if index is None:
            return None
        path, others = self._path(index), earlier[index]
        is_image = index < len(here.conversation.messages) and _texts(others) == _texts(
            here.conversation.messages[index]
        )
        return Difference(Cause.IMAGES if is_image else self._cause_of_items(), path=path, item_id=self._item_id(path))

    def _first_other_message(self) -> tuple[int | None, Sequence[Message]]:
        """The index of the first message that differs, and the messages of the earlier prompt with its output, as far
        as they are known. None: all of them are in the later prompt."""
        earlier, here = self._earlier_messages(), self._now.conversation.messages
        length = min(len(earlier), len(here))
        same = common_length(earlier[:length], here[:length])
        return (same if same < length else None), earlier

    def _earlier_messages(self) -> Sequence[Message]:
        before = self._before
        if (
            self._is_continued or before.output_items == NO_ITEMS
        ):  # then the output is in the later turn as it was written
            return before.conversation.messages
        given = join_arrays([before.turn.input, before.output_items])
        try:
            turn = replace(before.turn, input=given, output=NO_ITEMS)
            found = turn_prompt.conversation_of(self._model, turn, before.parameters, self._media.anew())
        except InvalidRequest:  # it ends with calls without their results
            return before.conversation.messages
        return found.messages

    @property
    def _is_continued(self) -> bool:
        """Whether the items of the later turn begin with those of the earlier one and its output."""
        before = [*loads(self._before.turn.history), *loads(self._before.turn.input), *loads(self._before.output_items)]
        return [*loads(self._now.turn.history), *loads(self._now.turn.input)][: len(before)] == before

    def _cause_of_items(self) -> Cause:
        now, before = self._now.turn, self._before.turn
        known = {item.get("id") for item in _items(before.history, before.input, self._before.output_items)}
        compactions = (item for item in _items(now.history, now.input) if item.get("type") == COMPACTION)
        is_new = any(item.get("id") not in known for item in compactions)
        is_cut = self._is_continued and self._now.parameters.truncation == "auto"
        return Cause.COMPACTED if is_new or is_cut else Cause.INPUT

    # ---- Places ----

    def _at(self, cause: Cause, place: int, path: str | None = None) -> Difference:
        begin = max(0, place - _LEAD_CHARS)
        before, now = self._before.whole_text, self._now.text
        return Difference(
            cause,
            self.reusable_tokens if self.has_ids else None,
            place,
            path,
            self._item_id(path),
            before[begin : begin + EXCERPT_CHARS],
            now[begin : begin + EXCERPT_CHARS],
        )

    def _token_at(self, place: int) -> int:
        """The index of the token with the character at a place."""
        wanted, length = len(self._now.text[:place].encode()), 0
        for index, token_id in enumerate(self._now.ids):
            length += len(self._model.tokenizer.bytes_of(token_id))
            if length > wanted:
                return index
        return len(self._now.ids)

    def _path_at(self, place: int) -> str | None:
        """The path of the item whose text has this place, or is the next one behind it; None if it is not found."""
        at, text = 0, self._now.text
        for index, message in enumerate(self._now.conversation.messages):
            found = text.find(message.text.strip(), at) if message.text.strip() else at
            at = at if found < 0 else found + len(message.text.strip())
            if at > place:
                return self._path(index)
        return None

    def _path(self, index: int) -> str:
        return turn_prompt.item_path(self._now.turn, self._now.parameters, self._media, index)

    def _opening_path(self) -> str:
        return self._path(0) if _opening(self._now.conversation) else "instructions"

    def _item_id(self, path: str | None) -> str | None:
        found = re.fullmatch(r"(history|input)\[(\d+)\].*", path or "")
        if found is None:
            return None
        items = loads(getattr(self._now.turn, found[1]))
        return str(items[int(found[2])].get("id") or "") or None


def common_length(one: Any, other: Any) -> int:
    """The length of the common beginning of two sequences of a kind."""
    most = min(len(one), len(other))
    return bisect_left(range(most), True, key=lambda at: one[: at + 1] != other[: at + 1])


def _items(*arrays: bytes) -> Iterator[Object]:
    for each in arrays:
        yield from loads(each)


def _opening(conversation: Conversation) -> tuple[Message, ...]:
    """The system message at the beginning."""
    first = conversation.messages[:1]
    return first if first and first[0].role in ("system", "developer") else ()


def _texts(message: Message) -> Sequence[str]:
    return list(message.texts())


def _tool_path(before: Conversation, now: Conversation) -> str:
    """The path of the first tool that differs."""
    return f"tools[{common_length(before.tools, now.tools)}]"
