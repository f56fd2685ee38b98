from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

from antiphon.local.pretokenizers import PRE_TOKENIZERS
from antiphon_translator.prompt_cache import ENTRY_BYTES, CachingEncoder, PieceCache
from antiphon_translator.templates.control_tokens import ControlTokens
from antiphon_translator.tokens import ModelTokenizer
from tests.support.served_models import tokenizer
from tests.support.small_vocabulary import byte_tokenizer

MARKERS = ("<|im_start|>", "<|im_end|>", "<x>", "<x", "\n\n", "\na")
ROOM = 10_000


def small(**parts: Any) -> ModelTokenizer:
    """Letters and a few merges, and whatever steps are to be tried with them."""
    letters = [*"abc \u2581\n1<x>|im_startend", "ab", "\u2581a", "aa"]
    vocabulary = {text: number for number, text in enumerate(dict.fromkeys(letters))}
    made = Tokenizer(models.BPE(vocabulary, [("a", "b"), ("\u2581", "a"), ("a", "a")]))
    for name, part in parts.items():
        setattr(made, name, part)
    made.add_tokens([AddedToken(name, normalized=False) for name in MARKERS])
    made.add_tokens([AddedToken("<y>", lstrip=True, rstrip=True, normalized=False), AddedToken("cc", normalized=True)])
    return ModelTokenizer(made)


def smollm2(rule: str) -> ModelTokenizer:
    """SmolLM2's vocabulary and merges, and how another model cuts text into words."""
    made = Tokenizer.from_str(tokenizer()._tokenizer.to_str())
    splits = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in PRE_TOKENIZERS[rule].patterns]
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.pre_tokenizer = pre_tokenizers.Sequence([*splits, byte_level])
    return ModelTokenizer(made)


def sentencepiece() -> ModelTokenizer:
    """Letters, and bytes for what is none of them, as Llama 2 has it."""
    letters = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), "\u2581", "a", "b", "\u2581a", "ab"]
    vocabulary = {text: number for number, text in enumerate(letters)}
    merges = [("a", "b"), ("\u2581", "a")]
    made = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    made.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    made.add_tokens([AddedToken(name, normalized=False) for name in MARKERS])
    return ModelTokenizer(made)


def unigram() -> ModelTokenizer:
    scores = [
        ("<unk>", 0.0),
        ("a", -1.0),
        ("ab", -1.5),
        ("b", -2.0),
        ("\u2581", -2.0),
        ("\u2581a", -2.5),
        ("<x>", -1.0),
    ]
    made = Tokenizer(models.Unigram(scores, 0))
    made.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    made.add_tokens([AddedToken(name, normalized=False) for name in MARKERS])
    return ModelTokenizer(made)


TOKENIZERS = {
    "smollm2": tokenizer(),
    **{f"smollm2 as {rule}": smollm2(rule) for rule in ("llama3", "qwen2", "deepseek-v3", "tekken", "default")},
    "sentencepiece": sentencepiece(),
    "unigram": unigram(),
    "bytes": byte_tokenizer(*MARKERS),
    "bare": small(),
    "prepends": small(
        normalizer=normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    ),
    "marks words": small(pre_tokenizer=pre_tokenizers.Metaspace(prepend_scheme="always")),
    "marks the first word": small(pre_tokenizer=pre_tokenizers.Metaspace(prepend_scheme="first")),
    "strips": small(normalizer=normalizers.Sequence([normalizers.Strip(), normalizers.Lowercase()])),
    "splits": small(pre_tokenizer=pre_tokenizers.Sequence([pre_tokenizers.Digits(), pre_tokenizers.Whitespace()])),
}
PIECES = st.one_of(
    st.sampled_from(
        [*MARKERS, "<y>", "<|im_", "start|>", " ", "  ", "\n", "a", "ab ", " Hello", "12", "x", "cc", "AA", "<X>"]
    ),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
)


class Counting(ModelTokenizer):
    """Remembers what it was asked to encode."""

    def __init__(self, made: ModelTokenizer) -> None:
        super().__init__(made._tokenizer)
        self.asked: list[str] = []

    def encode(self, text: str) -> list[int]:
        self.asked.append(text)
        return super().encode(text)


@pytest.fixture
def counting() -> Counting:
    return Counting(tokenizer())


def encode(encoder: CachingEncoder, made: ModelTokenizer, text: str) -> list[int]:
    return encoder.encode(text, list(ControlTokens(made.added).spans(text)))


@pytest.mark.parametrize("name", TOKENIZERS)
@given(st.lists(st.lists(PIECES, max_size=12), max_size=4), st.sampled_from([0, 400, 700, ROOM]))
@example([["\n\n", "ab"]], ROOM)  # "\na" is spelt, but "\n\n" is found in its place
def test_the_ids_are_those_of_the_tokenizer(name: str, texts: list[list[str]], most_bytes: int) -> None:
    """Whatever was encoded before, and whatever of it is still kept."""
    made = TOKENIZERS[name]
    encoder = CachingEncoder(made, most_bytes=most_bytes)
    for pieces in [*texts, *texts, [piece for text in texts for piece in text]]:
        assert encode(encoder, made, "".join(pieces)) == made.encode("".join(pieces))


def test_only_what_is_new_is_encoded(counting: Counting) -> None:
    encoder = CachingEncoder(counting, most_bytes=ROOM)
    chat = "<|im_start|>user\nHello<|im_end|>\n"
    encode(encoder, counting, f"{chat}<|im_start|>assistant\n")
    counting.asked.clear()
    encode(encoder, counting, f"{chat}<|im_start|>assistant\nHi<|im_end|>\n<|im_start|>user\nGo on<|im_end|>\n")
    assert counting.asked == ["assistant\nHi<|im_end|>", "user\nGo on<|im_end|>", "\n"]


def test_a_prompt_that_was_seen_is_not_encoded_at_all(counting: Counting) -> None:
    encoder = CachingEncoder(counting, most_bytes=ROOM)
    first = encode(encoder, counting, "a<|im_end|>b<|im_end|>c")
    counting.asked.clear()
    assert encode(encoder, counting, "a<|im_end|>b<|im_end|>c") == first
    assert counting.asked == []


def test_without_room_everything_is_encoded_in_one_piece(counting: Counting) -> None:
    encoder = CachingEncoder(counting, most_bytes=0)
    for _ in range(2):
        encode(encoder, counting, "a<|im_end|>b")
    assert counting.asked == ["a<|im_end|>b"] * 2


def test_where_the_first_word_is_marked_nothing_is_cut() -> None:
    made = Counting(TOKENIZERS["marks the first word"])
    encode(CachingEncoder(made, most_bytes=ROOM), made, "a<x>b")
    assert made.asked == ["a<x>b"]


def test_what_was_not_used_for_longest_goes_first() -> None:
    cache = PieceCache(3 * (ENTRY_BYTES + 8))
    for digest in (b"1", b"2", b"3"):
        cache.keep(digest, [1, 2])
    cache.find([b"1"])
    cache.keep(b"4", [1, 2])
    assert [found is not None for found in cache.find([b"1", b"2", b"3", b"4"])] == [True, False, True, True]
    assert cache.bytes == 3 * (ENTRY_BYTES + 8)


def test_what_is_kept_stays_within_its_bytes() -> None:
    cache = PieceCache(2_000)
    for number in range(100):
        cache.keep(str(number).encode(), range(number))
        assert cache.bytes <= 2_000
    cache.keep(b"too much", range(1_000))
    assert cache.find([b"too much"]) == [None]
    assert cache.find([b"99"]) != [None]
    cache.keep(b"99", range(99))
    assert cache.bytes == sum(ENTRY_BYTES + 4 * len(each) for each in cache._ids.values())


def test_threads_may_share_it() -> None:
    encoder = CachingEncoder(tokenizer(), most_bytes=3_000)
    texts = [f"{'<|im_end|>'.join(str(n * m) for m in range(9))}" for n in range(40)] * 5

    def is_right(text: str) -> bool:
        return encode(encoder, tokenizer(), text) == tokenizer().encode(text)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(is_right, texts))
    assert encoder._cache.bytes <= 3_000
