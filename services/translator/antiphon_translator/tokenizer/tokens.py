"""Text to token ids and back.

`ModelTokenizer` is a model's vocabulary; one is loaded per model and shared, also between threads. `Detokenizer` turns
the ids of one generation into text while they arrive. It wraps the library's DecodeStream, which knows when a
character is complete, and adds what that leaves to its caller:

* each run of ordinary ids between two added tokens has a stream of its own, so that nothing half-decoded crosses a
  marker; added tokens stand for themselves (`skip_special_tokens` would swallow markers that mean something);
* the first stream is primed with the end of the prompt: decoders that strip a leading space would otherwise eat the
  first space of the answer;
* at most PENDING_IDS_MAX ids wait for a character to be completed; then they are decoded as they are, because a
  run of invalid bytes would otherwise be decoded again and again, at quadratic cost;
* `finish` flushes: the stream itself never gives up the end of an incomplete character;
* an id outside the vocabulary (padded vocabularies have such) stands for nothing;
* ids are fed one at a time, which costs 0.6 us each, so that the text cannot depend on how they were grouped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from tokenizers import Encoding, Tokenizer
from tokenizers.decoders import DecodeStream

from antiphon_core import offload
from antiphon_translator.tokenizer import separators
from antiphon_translator.tokenizer.token_bytes import TokenBytes
from antiphon_translator.tokenizer.token_floor import TokenFloor

PENDING_IDS_MAX = 16
PRIMING_IDS = 6  # more costs time on the first step and changes nothing

REPLACEMENT = "\ufffd"  # what undecodable bytes become


class ModelTokenizer:
    """A model's vocabulary."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        # Both may be switched on in a tokenizer.json that was saved after training; neither belongs here.
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self._tokenizer = tokenizer
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
        """The ids of a text. Added tokens that it spells are matched; no others are put around it."""
        ids: list[int] = self.encode_all([text])[0].ids
        return ids

    def encode_all(self, texts: Sequence[str]) -> list[Encoding]:
        """Several texts, each as `encode` would. `len` of an encoding is the number of its ids. Other threads run on
        meanwhile: the library's `encode` would hold them up for as long as it takes."""
        with offload.without_gil():
            encodings: list[Encoding] = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return encodings

    def decode(self, ids: Sequence[int]) -> str:
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=False))

    def token_id(self, token: str) -> int | None:
        found: int | None = self._tokenizer.token_to_id(token)
        return found

    def step(self, stream: DecodeStream, token_id: int) -> str | None:
        """Feeds one id to a stream; the text that it completed."""
        text: str | None = stream.step(self._tokenizer, token_id)
        return text

    @cached_property
    def separators(self) -> frozenset[str]:
        """Added tokens behind which a text can be cut, and its parts encoded apart."""
        return separators.of(self._tokenizer)

    @cached_property
    def growth(self) -> int:
        """How many times as many bytes a text that is not ASCII may have once it is normalised."""
        return separators.growth(self._tokenizer)

    @cached_property
    def floor(self) -> TokenFloor:
        """How many tokens a text has at least."""
        return TokenFloor(self._tokenizer)

    @cached_property
    def bytes_of(self) -> Callable[[int], bytes]:
        """The bytes that a single token stands for; none for an id outside the vocabulary."""
        return TokenBytes(self._tokenizer, self.added).of

    @cached_property
    def replacement_ids(self) -> list[int]:
        """The ids of a U+FFFD that a model means as such."""
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
        """`spelling` says what some added tokens are written as; the others stand for their own text."""
        self._tokenizer = tokenizer
        self._added = tokenizer.added
        self._spelling = spelling or {}
        self._size = tokenizer.size
        self._kept_ids = max(PRIMING_IDS, len(tokenizer.replacement_ids))  # of those whose text was given
        self._run_ids_max = 4 * self._kept_ids + PENDING_IDS_MAX
        self._begin_run(prompt_ids[-PRIMING_IDS:])

    def feed(self, token_id: int) -> str:
        """The text that this id completed; often a little late, never early."""
        if token_id in self._added:
            return self._flush() + self._marker(token_id)
        if not 0 <= token_id < self._size:
            return ""
        self._run.append(token_id)
        try:
            text = self._tokenizer.step(self._stream, token_id)
        except Exception:  # noqa: BLE001 - "Invalid prefix encountered", which has no class: start over from here
            return self._restart()
        if text is not None:
            if len(self._run) > self._run_ids_max:
                del self._run[: -self._kept_ids]
            self._emitted = len(self._run)
            return text
        return self._restart() if len(self._run) - self._emitted >= PENDING_IDS_MAX else ""

    def finish(self, *, cut_off: bool) -> str:
        """The rest of the text. A character that was `cut_off` before its last byte is left out."""
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
        """The text of the ids that wait, complete or not."""
        pending = self._run[self._emitted :]
        if not pending:
            return ""
        context = self._run[max(0, self._emitted - PRIMING_IDS) : self._emitted]
        before = self._tokenizer.decode(context)
        self._emitted = len(self._run)
        return self._tokenizer.decode([*context, *pending]).removeprefix(before)

    def _begin_run(self, priming: Sequence[int]) -> None:
        """Opens a stream behind `priming`, ids whose text has been dealt with."""
        # A stream primed with an incomplete character would emit its priming together with the first text.
        usable = list(priming) if not self._tokenizer.decode(priming).endswith(REPLACEMENT) else []
        self._stream = DecodeStream(usable)
        self._run: list[int] = usable
        self._emitted = len(usable)

    def _ends_in_replacement(self) -> bool:
        meant = self._tokenizer.replacement_ids
        return self._run[-len(meant) :] == meant
