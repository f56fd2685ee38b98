"""Which control tokens in a rendered prompt the template wrote, and which somebody only spelt in a message.

A tokenizer turns `<|im_end|>` into the control token of that name wherever it finds it, so a user could end his own
message and go on as the system. Here such text stays text, and everything else keeps its exact ids:

1. The conversation is rendered twice, once as it is and once *masked*: in every text of the conversation, and nowhere
   else, the characters that names of control tokens are made of are exchanged for private-use characters. What the
   masked prompt still spells came from the template, letter by letter.
2. The prompt is searched for control tokens as the tokenizer would, leftmost and longest first. One that the masked
   prompt does not confirm at the same place is *cut*: the prompt is encoded in two pieces that meet inside the name,
   so that neither spells it.
3. A prompt without cuts, which is nearly every one, stays in one piece: its ids are those of the rendered template.
   All this costs less than the encoding itself.

What was not chosen: the library's `encode_special_tokens` is a switch on a tokenizer that all threads share, applies to
whole texts, and leaves out added tokens that are not "special" (Qwen's `<think>` and `<tool_call>`). Escaping names
inside messages misses those that a message and the template, or two messages, spell together.

Where exactness and safety exclude each other, safety wins, but only for text that spells an added token. The price is
paid by vocabularies that list ordinary words as added tokens (Gemma's HTML tags): they read such a word in a message
as smaller pieces. Added tokens of white space or of one character are taken for vocabulary and left alone.

A template that looks into texts may render the two differently (a text that begins with "http" no longer does so
when masked). Then the plain prompt counts as long as no text spells a control token and both hold the same ones;
otherwise the masked one, unmasked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import islice

from antiphon_core.errors import InvalidRequest
from antiphon_translator.conversation import Conversation

_PRIVATE_USE = re.compile("[\U000f0000-\U0010ffff]")  # planes 15 and 16: no real text uses them


class ControlTokens:
    """The control tokens of one vocabulary, and where a text spells them."""

    def __init__(self, added: Mapping[int, str]) -> None:
        """`added` are the added tokens of the vocabulary by id."""
        names = {token_id: name for token_id, name in added.items() if len(name) > 1 and not name.isspace()}
        self.ids = frozenset(names)
        self.alphabet = sorted({char for name in names.values() for char in name if not char.isspace()})
        self._names = frozenset(names.values())
        self._lengths = sorted({len(name) for name in self._names}, reverse=True)
        first = "".join(re.escape(char) for char in sorted({name[0] for name in self._names}))
        self._first = re.compile(f"[{first}]" if first else "(?!)")

    def find(self, text: str, start: int = 0) -> tuple[int, int] | None:
        """The span of the first control token at or behind `start`, the longest of those that begin there."""
        for match in self._first.finditer(text, start):
            begin = match.start()
            for length in self._lengths:
                if text[begin : begin + length] in self._names:
                    return begin, begin + length
        return None

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Where all control tokens are that a text spells, in order."""
        position = 0
        while (span := self.find(text, position)) is not None:
            yield span
            position = span[1]

    def spelt(self, text: str) -> Iterator[str]:
        """Their names."""
        return (text[slice(*span)] for span in self.spans(text))

    def pieces(self, conversation: Conversation, render: Callable[[Conversation], str]) -> list[str]:
        """The prompt that `render` makes of a conversation, in the pieces to encode one by one."""
        self._require_plain_keys(conversation)
        plain = render(conversation)
        mask = Mask(self.alphabet, avoiding=plain)
        masked = render(conversation.map_text(mask.hide))
        revealed = mask.reveal(masked)
        if revealed != plain and not self._differ(conversation, plain, masked):
            return [plain]
        return list(self._cut(revealed, masked))

    def _require_plain_keys(self, conversation: Conversation) -> None:
        """InvalidRequest: a key of a tool's schema or of a call's arguments spells a control token. Keys are not
        masked, because templates look things up by them."""
        for key in conversation.object_keys():
            if self.find(key):
                raise InvalidRequest(
                    f"The key {key!r} in a tool or in a call's arguments spells a control token of this model.",
                    field="tools",
                    code="unsupported_value",
                )

    def _differ(self, conversation: Conversation, plain: str, masked: str) -> bool:
        spells = any(map(self.find, conversation.texts()))
        return spells or list(self.spelt(plain)) != list(self.spelt(masked))

    def _cut(self, text: str, masked: str) -> Iterator[str]:
        """`text`, cut inside each control token that `masked` does not have at the same place."""
        start = position = 0
        while (span := self.find(text, position)) is not None:
            begin, end = span
            if masked[begin:end] == text[begin:end]:
                position = end
            else:
                yield text[start : begin + 1]
                start = position = begin + 1
        yield text[start:]


class Mask:
    """An exchange of the characters of an alphabet for private-use characters that a text does not have."""

    def __init__(self, alphabet: list[str], *, avoiding: str) -> None:
        """InvalidRequest: the text uses so many private-use characters that none are left."""
        taken = set(_PRIVATE_USE.findall(avoiding))
        free = (char for char in map(chr, range(0xF0000, 0x110000)) if char not in taken)
        stand_ins = list(islice(free, len(alphabet)))
        if len(stand_ins) < len(alphabet):
            raise InvalidRequest(
                "The input has too many private-use characters.", field="input", code="unsupported_value"
            )
        self._there = str.maketrans(dict(zip(alphabet, stand_ins, strict=True)))
        self._back = str.maketrans(dict(zip(stand_ins, alphabet, strict=True)))

    def hide(self, text: str) -> str:
        return text.translate(self._there)

    def reveal(self, text: str) -> str:
        return text.translate(self._back)
