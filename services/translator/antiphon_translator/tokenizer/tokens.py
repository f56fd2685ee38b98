"""Text to token ids and back.

`ModelTokenizer` is a model's vocabulary; one is loaded per model and shared, also between threads. `Detokenizer` turns
the ids of one generation into text while they arrive. It wraps the library's DecodeStream, which knows when a
character is complete, and adds:

* each run of ordinary ids between two added tokens has a stream of its own, so that no incomplete character crosses a
  marker; added tokens become their own text (`skip_special_tokens` would drop markers of reasoning and calls);
* the first stream is primed with the end of the prompt, because some decoders strip the leading space of a text, and
  would strip that of the answer;
* at most PENDING_IDS_MAX ids wait for a character to be completed; then they are decoded as they are, because a
  run of invalid bytes would otherwise be decoded again with each id, at quadratic cost;
* `finish` flushes the end of an incomplete character, which the stream itself never returns;
* an id outside the vocabulary, as padded vocabularies have, becomes no text;
* ids are fed one at a time, which costs 0.6 us each, so that the text cannot depend on how they were grouped.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import takewhile
from pathlib import Path

from tokenizers import Encoding, Tokenizer
from tokenizers.decoders import DecodeStream

from antiphon_core import offload
from antiphon_translator.tokenizer import separators, token_texts
from antiphon_translator.tokenizer.token_bytes import TokenBytes
from antiphon_translator.tokenizer.token_floor import TokenFloor
from antiphon_translator.tokenizer.token_texts import TokenTexts

PENDING_IDS_MAX = 16
PRIMING_IDS = 6  # more only cost time on the first step

_SAMPLE = "a"

REPLACEMENT = "\ufffd"  # what undecodable bytes become


class ModelTokenizer:
    """A model's vocabulary. `library` is the tokenizer that it wraps."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        # A tokenizer.json that was saved after training may have both switched on.
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self.library = tokenizer
        self.size: int = tokenizer.get_vocab_size(with_added_tokens=True)
        self.added: Mapping[int, str] = {
            token_id: token.content for token_id, token in tokenizer.get_added_tokens_decoder().items()
        }

    @classmethod
    def load(cls, path: Path) -> ModelTokenizer:
        """Reads a tokenizer.json. OSError, or ValueError when it is none."""
        try:
            return cls(Tokenizer.from_buffer(path.read_bytes()))
        except OSError:
            raise
        except Exception as error:  # the library raises no class of its own
            raise ValueError(f"{path} is not a tokenizer.json: {error}") from error

    def encode(self, text: str) -> list[int]:
        """The ids of a text. Added tokens that the text spells are found; no special tokens are added around it."""
        ids: list[int] = self.encode_all([text])[0].ids
        return ids

    def encode_all(self, texts: Sequence[str]) -> list[Encoding]:
        """Encodes several texts as `encode` does, without the GIL, which the library's own `encode` would hold. `len`
        of an encoding is the number of its ids."""
        with offload.without_gil():
            encodings: list[Encoding] = self.library.encode_batch_fast(list(texts), add_special_tokens=False)
        return encodings

    def decode(self, ids: Sequence[int]) -> str:
        return str(self.library.decode(list(ids), skip_special_tokens=False))

    def text_of(self, ids: Sequence[int], spelling: Mapping[int, str]) -> str:
        """The text of all ids at once, which is that of a `Detokenizer`. `spelling` is the detokenizer's."""
        decode, added = self.library.decode, self.added
        texts, run, before = list[str](), list[int](), ""
        for token_id in (*ids, None):
            if token_id is not None and token_id not in added:
                run.append(token_id)
                continue
            texts.append(decode(run, skip_special_tokens=False).removeprefix(before))
            if token_id is not None:
                texts.append(spelling.get(token_id) or added[token_id])
                run, before = [token_id], decode([token_id], skip_special_tokens=False)
        return "".join(texts)

    def known_ids(self, ids: Iterable[int]) -> array[int]:
        """The ids up to the first one outside the vocabulary, four bytes each."""
        return array("i", takewhile(range(self.size).__contains__, ids))

    def token_id(self, token: str) -> int | None:
        found: int | None = self.library.token_to_id(token)
        return found

    @cached_property
    def added_beginning(self) -> str:
        """The added tokens that the library puts before each text by default, as text; mostly one, or none."""
        plain, whole = self.encode(_SAMPLE), self.library.encode(_SAMPLE).ids
        at = next((at for at in range(len(whole)) if whole[at : at + len(plain)] == plain), 0)
        return "".join(self.added.get(token_id, "") for token_id in whole[:at])

    @cached_property
    def separators(self) -> frozenset[str]:
        """The added tokens behind which a text can be cut, and its parts encoded separately."""
        return separators.of(self.library)

    @cached_property
    def growth(self) -> int:
        """The factor by which normalising may lengthen a text that is not ASCII, in bytes."""
        return separators.growth(self.library)

    @cached_property
    def floor(self) -> TokenFloor:
        """The lower bound for the number of tokens of a text."""
        return TokenFloor(self.library)

    @cached_property
    def bytes_of(self) -> Callable[[int], bytes]:
        """Maps an id to the bytes that the token stands for; none for an id outside the vocabulary."""
        return TokenBytes(self.library, self.added).of

    @cached_property
    def text_within(self) -> Callable[[int], str] | None:
        """Maps an id to the text that the token has behind any others; to an empty one if that depends on the tokens
        around it. None if the vocabulary's decoder is not known to write text token by token."""
        return TokenTexts(self.library, self.added, self.bytes_of).of if token_texts.are_joined(self.library) else None

    @cached_property
    def replacement_ids(self) -> list[int]:
        """The ids of the character U+FFFD, which a model may write on purpose."""
        return self.encode(REPLACEMENT)


class Detokenizer:
    """The text of one generation, from ids as they arrive."""

    def __init__(
        self,
        tokenizer: ModelTokenizer,
        *,
        prompt_ids: Sequence[int] = (),
        spelling: Mapping[int, str] | None = None,
    ) -> None:
        """`spelling` maps ids of added tokens to the text that they become; the others become their own text."""
        self._tokenizer = tokenizer
        self._library = tokenizer.library
        self._added = tokenizer.added
        self._spelling = spelling or {}
        self._size = tokenizer.size
        self._kept_ids = max(PRIMING_IDS, len(tokenizer.replacement_ids))  # of the ids whose text was returned
        self._run_ids_max = 4 * self._kept_ids + PENDING_IDS_MAX
        self._begin_run(prompt_ids[-PRIMING_IDS:])

    def feed(self, token_id: int) -> str:
        """Feeds an id, and returns the text that it completed; empty while a character is incomplete."""
        if token_id in self._added:
            return self._flush() + self._marker(token_id)
        if not 0 <= token_id < self._size:
            return ""
        self._run.append(token_id)
        try:
            text = self._stream.step(self._library, token_id)
        except Exception:  # noqa: BLE001 - "Invalid prefix encountered", which has no class: start over from here
            return self._restart()
        if text is not None:
            if len(self._run) > self._run_ids_max:
                del self._run[: -self._kept_ids]
            self._emitted = len(self._run)
            return text
        return self._restart() if len(self._run) - self._emitted >= PENDING_IDS_MAX else ""

    @property
    def is_between_characters(self) -> bool:
        """Whether the text of all ids was returned, and the next text is decoded behind some of them."""
        return 0 < self._emitted == len(self._run)

    def skip(self, token_ids: Sequence[int]) -> None:
        """Goes on behind ids whose text was returned elsewhere. The last one is whole characters."""
        self._prime([*self._run, *token_ids][-self._kept_ids :])

    def finish(self, *, cut_off: bool) -> str:
        """Returns the rest of the text. With `cut_off` an incomplete last character is left out."""
        rest = self._flush()
        if cut_off and rest.endswith(REPLACEMENT) and not self._ends_in_replacement():
            rest = rest.removesuffix(REPLACEMENT)
        return rest

    def _marker(self, token_id: int) -> str:
        self._begin_run((token_id,))
        return self._spelling.get(token_id) or self._added[token_id]

    def _restart(self) -> str:
        text = self._flush()
        self._begin_run(self._run[-PRIMING_IDS:])
        return text

    def _flush(self) -> str:
        """Returns the text of the pending ids, complete or not."""
        pending = self._run[self._emitted :]
        if not pending:
            return ""
        context = self._run[max(0, self._emitted - PRIMING_IDS) : self._emitted]
        before = self._tokenizer.decode(context)
        self._emitted = len(self._run)
        return self._tokenizer.decode([*context, *pending]).removeprefix(before)

    def _begin_run(self, priming: Sequence[int]) -> None:
        """Opens a stream behind `priming`, ids whose text was returned or belongs to the prompt."""
        # A stream primed with an incomplete character would emit its priming together with the first text.
        self._prime(list(priming) if not self._tokenizer.decode(priming).endswith(REPLACEMENT) else [])

    def _prime(self, priming: list[int]) -> None:
        self._stream = DecodeStream(priming)
        self._run = priming
        self._emitted = len(priming)

    def _ends_in_replacement(self) -> bool:
        meant = self._tokenizer.replacement_ids
        return self._run[-len(meant) :] == meant
