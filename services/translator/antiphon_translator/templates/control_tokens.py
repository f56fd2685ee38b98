"""Prevents prompt injection by control tokens: only the chat template can write them, and no text of a message can.

A tokenizer turns `<|im_end|>` into the control token of that name wherever it finds it, so a user could end their own
message and go on as the system. Here such text stays text, and everything else keeps its exact ids:

1. A text without any character that begins the name of a control token cannot begin a name. If all texts of the
   conversation are so, and the template writes no part of a name that a text could complete (`may_be_completed`), every
   name in the prompt is the template's: the prompt is rendered once. That is nearly every prompt of prose.
2. Otherwise the conversation is rendered a second time, *masked*: in every text of the conversation, and nowhere else,
   the characters that begin names are replaced by private-use characters. Where the template may write a part of a
   name, or a key begins one, all characters of names are replaced. Every name that the masked prompt still has was
   written by the template.
3. The prompt is searched for control tokens as the tokenizer would, leftmost and longest first. One that the masked
   prompt does not have at the same position is *cut*: the prompt is encoded in two pieces that meet inside the name,
   so that neither spells it.
4. A prompt without cuts, which is nearly every one, stays in one piece: its ids are those of the rendered template.

Alternatives that were rejected: the library's `encode_special_tokens` is a switch on a tokenizer that all threads
share, applies to whole texts, and leaves out added tokens that are not "special" (Qwen's `<think>` and `<tool_call>`).
Escaping names inside messages misses those that a message and the template, or two messages, spell together.

Where exact ids and safety exclude each other, safety wins, but only for text that spells an added token. This affects
vocabularies that list ordinary words as added tokens (Gemma's HTML tags): such a word in a message is encoded in
smaller pieces. Added tokens of white space or of one character do not count as control tokens.

A template that inspects texts may render the masked conversation differently (a text that begins with "http" no longer
does so when masked). Then the plain prompt is used if no text spells a control token and both prompts have the same
control tokens; otherwise the masked prompt is used, with its characters restored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice

from antiphon_core.errors import InvalidRequest
from antiphon_translator.conversation import Conversation, Message

_PRIVATE_USE = re.compile("[\U000f0000-\U0010ffff]")  # planes 15 and 16: no real text uses them
_WRITTEN_BY_FILTERS = "\\\"'&"  # what filters put into a text that does not have it: quotes, escapes, entities
_WINDOW_CHARS = 2**16  # of one search: a search is one call, in which no other thread runs

Span = tuple[int, int]


class ControlTokens:
    """The control tokens of one vocabulary, and where a text spells them."""

    def __init__(self, added: Mapping[int, str], literals: Collection[str] | None = None) -> None:
        """`added` are the added tokens of the vocabulary by id, `literals` all texts of the template itself; None: they
        are not known."""
        names = {token_id: name for token_id, name in added.items() if len(name) > 1 and not name.isspace()}
        self.ids = frozenset(names)
        self.alphabet = sorted({char for name in names.values() for char in name if not char.isspace()})
        self.names = frozenset(names.values())
        self._openings = frozenset(name[:2] for name in self.names)
        self._lengths = sorted({len(name) for name in self.names}, reverse=True)
        self._first = sorted({name[0] for name in self.names})
        self._begins = re.compile(f"[{''.join(map(re.escape, self._first))}]" if names else "(?!)")
        # Whether a control token may consist of a part that the template writes and a part of a message.
        is_known = literals is not None and all(map(_marks_a_name, self._first))
        self._can_be_composed = not is_known or may_be_completed(literals or (), self.names)

    def find(self, text: str, start: int = 0) -> Span | None:
        """The span of the first control token at or behind `start`, the longest of those that begin there."""
        return next(self.spans(text, start), None)

    def spans(self, text: str, start: int = 0) -> Iterator[Span]:
        """Yields the spans of all control tokens at or behind `start`, in order."""
        end = start
        for window in range(start, len(text), _WINDOW_CHARS):
            for match in self._begins.finditer(text, window, window + _WINDOW_CHARS):
                begin = match.start()
                if begin < end or text[begin : begin + 2] not in self._openings:
                    continue
                for length in self._lengths:
                    if (name := text[begin : begin + length]) in self.names:
                        end = begin + len(name)  # at the end of the text a slice is shorter than asked for
                        yield begin, end
                        break

    def spelt(self, text: str) -> Iterator[str]:
        """Yields the names of the control tokens that a text spells, in order."""
        return (text[slice(*span)] for span in self.spans(text))

    def pieces(self, conversation: Conversation, render: Callable[[Conversation], str]) -> list[str]:
        """The prompt that `render` makes of a conversation, in the pieces to encode one by one.

        InvalidRequest: as `require_plain`, or the texts leave no private-use character to mask with."""
        keys = list(conversation.object_keys())
        self.require_plain(keys)
        plain = render(conversation)
        if not self._can_be_composed and not self._may_begin_in(conversation):
            return [plain]
        alphabet = self.alphabet if self._can_be_composed or self._begin_in(keys) else self._first
        mask = Mask(alphabet, avoiding=plain)
        masked = render(conversation.map_text(mask.hide, lambda key: mask.hide(key) if self.find(key) else key))
        revealed = mask.reveal(masked)
        if revealed != plain and not self._differ(conversation, plain, masked):
            return [plain]
        return list(self._cut(revealed, masked))

    def require_plain(self, keys: Iterable[str]) -> None:
        """InvalidRequest: a key that is a word spells a control token. Words stay as they are, because templates look
        things up by them; other keys are treated as all text."""
        for key in keys:
            if key.isidentifier() and self.find(key):
                raise InvalidRequest(
                    f"The key {key!r} in a tool or in a call's arguments spells a control token of this model.",
                    field="tools",
                    code="unsupported_value",
                )

    def _may_begin_in(self, conversation: Conversation) -> bool:
        return any(conversation.each(self._begin_in_message)) or self._begin_in(conversation.tool_texts())

    def _begin_in_message(self, message: Message) -> bool:
        return self._begin_in(message.texts())

    def _begin_in(self, texts: Iterable[str]) -> bool:
        """Whether a text holds a character that begins a name."""
        first = self._first
        return any(char in text for text in texts for char in first)

    def _differ(self, conversation: Conversation, plain: str, masked: str) -> bool:
        """Whether the masked prompt must be used: a text spells a control token, or the prompts have different ones."""
        spells = any(map(self.find, conversation.texts()))
        return spells or list(self.spelt(plain)) != list(self.spelt(masked))

    def _cut(self, text: str, masked: str) -> Iterator[str]:
        """Yields `text`, cut inside each control token that `masked` does not have at the same position."""
        start = 0
        while (begin := self._find_unconfirmed(text, masked, start)) is not None:
            yield text[start : begin + 1]
            start = begin + 1
        yield text[start:]

    def _find_unconfirmed(self, text: str, masked: str, start: int) -> int | None:
        """The start of the first control token behind `start` that `masked` does not have at the same position."""
        spans = self.spans(text, start)
        return next((begin for begin, end in spans if masked[begin:end] != text[begin:end]), None)


def may_be_completed(literals: Iterable[str], names: Collection[str]) -> bool:
    """Whether a text of the template ends with the beginning of a name, which a message could complete. White space at
    the end of a text may be stripped."""
    beginnings = {name[:length] for name in names for length in range(1, len(name))}
    longest = max(map(len, beginnings), default=0)
    ends = {text[-longest:] for literal in literals for text in (literal, literal.rstrip())} if longest else set()
    return any(end[at:] in beginnings for end in ends for at in range(len(end)))


def _marks_a_name(first: str) -> bool:
    """Whether a character that begins a name is one that no filter of Jinja adds to a text, as `upper`, `join` or
    `tojson` may add letters, digits, white space, quotes and escapes."""
    return not (first.isalnum() or first.isspace() or first in _WRITTEN_BY_FILTERS)


class Mask:
    """Replaces the characters of an alphabet by private-use characters that a text does not have."""

    def __init__(self, alphabet: Sequence[str], *, avoiding: str) -> None:
        """InvalidRequest: the text uses so many private-use characters that none are left."""
        taken = set(_PRIVATE_USE.findall(avoiding)) if not avoiding.isascii() else ()
        free = (char for char in map(chr, range(0xF0000, 0x110000)) if char not in taken)
        stand_ins = list(islice(free, len(alphabet)))
        if len(stand_ins) < len(alphabet):
            raise InvalidRequest(
                "The input has too many private-use characters.", field="input", code="unsupported_value"
            )
        self._pairs = list(zip(alphabet, stand_ins, strict=True))

    def hide(self, text: str) -> str:
        """The text with the characters replaced; the same object where there is nothing to replace."""
        for char, stand_in in self._pairs:
            text = text.replace(char, stand_in)
        return text

    def reveal(self, text: str) -> str:
        for char, stand_in in self._pairs:
            text = text.replace(stand_in, char)
        return text
