"""Builds a Hugging Face tokenizer that gives exactly the ids that llama.cpp gives for the same GGUF file.

There are two kinds: byte-level BPE (`gpt2`), whose merges are in the file, and SentencePiece BPE with byte fallback
(`llama`), whose merges are rebuilt from the scores of the pieces. Other kinds are rejected.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from antiphon_local_triton.errors import LocalModelError
from antiphon_local_triton.gguf_file import Value
from antiphon_local_triton.pretokenizers import PRE_TOKENIZERS

WORD_START = "\N{LOWER ONE EIGHTH BLOCK}"
ELSEWHERE = (
    "Serve this model with another Triton and give Antiphon its original tokenizer: "
    "antiphon up --triton HOST:PORT --model-dir DIR."
)
_UNKNOWN, _CONTROL, _USER_DEFINED = 2, 3, 4


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The tokens of a GGUF file by id, with their types, scores and merges."""

    tokens: tuple[str, ...]
    kinds: tuple[int, ...]
    """llama.cpp's token types; empty means that all are ordinary."""
    scores: tuple[float, ...]
    merges: tuple[str, ...]
    pre: str
    unknown_id: int
    space_prefix: bool

    @classmethod
    def read(cls, metadata: Mapping[str, Value]) -> "Vocabulary":
        """Raises LocalModelError when the file holds no vocabulary."""
        texts = _list(metadata, "tokenizer.ggml.tokens")
        if not texts:
            raise LocalModelError(f"The GGUF file holds no tokenizer. {ELSEWHERE}")
        return cls(
            tokens=tuple(str(text) or f"[EMPTY_{number}]" for number, text in enumerate(texts)),
            kinds=tuple(_int(kind) for kind in _list(metadata, "tokenizer.ggml.token_type")),
            scores=tuple(_float(score) for score in _list(metadata, "tokenizer.ggml.scores")),
            merges=tuple(map(str, _list(metadata, "tokenizer.ggml.merges"))),
            pre=str(metadata.get("tokenizer.ggml.pre", "default")),
            unknown_id=_int(metadata.get("tokenizer.ggml.unknown_token_id", 0)),
            space_prefix=bool(metadata.get("tokenizer.ggml.add_space_prefix", True)),
        )

    @property
    def unknown(self) -> str | None:
        """The token for unknown text; None if the file names none, which some do by an id outside the vocabulary."""
        return self.tokens[self.unknown_id] if 0 <= self.unknown_id < len(self.tokens) else None

    def added_tokens(self) -> Iterator[AddedToken]:
        """The tokens that are matched in text before it is split, in the order of their ids."""
        for text, kind in zip(self.tokens, self.kinds, strict=False):
            if kind in (_UNKNOWN, _CONTROL, _USER_DEFINED):
                yield AddedToken(text, special=kind != _USER_DEFINED, normalized=False)

    def ids(self) -> dict[str, int]:
        return {text: number for number, text in enumerate(self.tokens)}


def build_tokenizer(metadata: Mapping[str, Value]) -> Tokenizer:
    """The tokenizer of a GGUF file. Raises LocalModelError, which names the kind, if it is neither of the two kinds."""
    kind = str(metadata.get("tokenizer.ggml.model", ""))
    builder = _BUILDERS.get(kind)
    if builder is None:
        raise LocalModelError(
            f"The GGUF file has a tokenizer of the kind {kind or 'none'!r}; known are {', '.join(_BUILDERS)}. "
            f"{ELSEWHERE}"
        )
    vocabulary = Vocabulary.read(metadata)
    tokenizer = builder(vocabulary)
    tokenizer.add_tokens(list(vocabulary.added_tokens()))
    return tokenizer


def _byte_level_bpe(vocabulary: Vocabulary) -> Tokenizer:
    rule = PRE_TOKENIZERS.get(vocabulary.pre)
    if rule is None:
        raise LocalModelError(
            f"How the GGUF file's tokenizer splits text ({vocabulary.pre!r}) is not known to this release. {ELSEWHERE}"
        )
    ids = vocabulary.ids()
    merges = [_pair(merge) for merge in vocabulary.merges]
    if not all(left in ids and right in ids and left + right in ids for left, right in merges):
        raise LocalModelError(f"The GGUF file's tokenizer merges tokens that it does not have. {ELSEWHERE}")
    tokenizer = Tokenizer(models.BPE(ids, merges, ignore_merges=rule.ignore_merges))
    splits = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in rule.patterns]
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*splits, byte_level])
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _sentencepiece_bpe(vocabulary: Vocabulary) -> Tokenizer:
    ids, merges, unknown = vocabulary.ids(), rebuilt_merges(vocabulary), vocabulary.unknown
    tokenizer = Tokenizer(models.BPE(ids, merges, unk_token=unknown, fuse_unk=True, byte_fallback=True))
    prefix = [normalizers.Prepend(WORD_START)] if vocabulary.space_prefix else []
    tokenizer.normalizer = normalizers.Sequence([*prefix, normalizers.Replace(" ", WORD_START)])
    strip = [decoders.Strip(" ", 1, 0)] if vocabulary.space_prefix else []
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace(WORD_START, " "), decoders.ByteFallback(), decoders.Fuse(), *strip]
    )
    return tokenizer


def rebuilt_merges(vocabulary: Vocabulary) -> list[tuple[str, str]]:
    """The merges of a SentencePiece vocabulary, best first.

    llama.cpp joins two neighbouring pieces if they form a piece together, and joins the pair with the highest score
    first. That equals a list of all ways to cut a piece into two known ones, ordered by the score of the whole piece.
    """
    if len(vocabulary.scores) < len(vocabulary.tokens):
        raise LocalModelError(f"The GGUF file's tokenizer has no scores for its pieces. {ELSEWHERE}")
    ids = vocabulary.ids()
    found = [
        (-vocabulary.scores[number], ids[text[:cut]], ids[text[cut:]], text[:cut], text[cut:])
        for number, text in enumerate(vocabulary.tokens)
        for cut in range(1, len(text))
        if text[:cut] in ids and text[cut:] in ids
    ]
    return [(left, right) for *_, left, right in sorted(found)]


def _pair(merge: str) -> tuple[str, str]:
    """Splits a merge: two tokens with a space between them, of which the first may itself begin with a space."""
    first, _, second = merge[1:].partition(" ")
    return merge[:1] + first, second


def _list(metadata: Mapping[str, Value], key: str) -> list[Value]:
    value = metadata.get(key)
    return value if isinstance(value, list) else []


def _int(value: Value) -> int:
    return int(value) if isinstance(value, int | float) else 0


def _float(value: Value) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


_BUILDERS: Mapping[str, Callable[[Vocabulary], Tokenizer]] = {"gpt2": _byte_level_bpe, "llama": _sentencepiece_bpe}
