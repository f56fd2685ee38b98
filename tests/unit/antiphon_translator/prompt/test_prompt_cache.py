from __future__ import annotations

from array import array
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import AddedToken, Encoding, Regex, Tokenizer, models, normalizers, pre_tokenizers

from antiphon_local_triton.pretokenizers import PRE_TOKENIZERS
from antiphon_translator.prompt.prompt_cache import (
    BLOCK_CHARS,
    NODES_MAX,
    PIECE_IDS,
    CachingEncoder,
    Encoded,
    UnspeltControlToken,
)
from antiphon_translator.templates.control_tokens import ControlTokens
from antiphon_translator.tokenizer.tokens import ModelTokenizer
from tests.support.segmentations import split_some
from tests.support.served_models import tokenizer
from tests.support.small_vocabulary import byte_tokenizer

MARKERS = ("<|im_start|>", "<|im_end|>", "<x>", "<x", "\n\n", "\na")
ROOM = 10_000


def small(**parts: Any) -> ModelTokenizer:
    """A tokenizer of letters and a few merges, with the given steps."""
    letters = [*"abc \u2581\n1<x>|im_startend", "ab", "\u2581a", "aa"]
    vocabulary = {text: number for number, text in enumerate(dict.fromkeys(letters))}
    made = Tokenizer(models.BPE(vocabulary, [("a", "b"), ("\u2581", "a"), ("a", "a")]))
    for name, part in parts.items():
        setattr(made, name, part)
    made.add_tokens([AddedToken(name, normalized=False) for name in MARKERS])
    made.add_tokens([AddedToken("<y>", lstrip=True, rstrip=True, normalized=False), AddedToken("cc", normalized=True)])
    return ModelTokenizer(made)


def smollm2(rule: str) -> ModelTokenizer:
    """The vocabulary and merges of SmolLM2, with the pre-tokenizer of another model."""
    made = Tokenizer.from_str(tokenizer().library.to_str())
    splits = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in PRE_TOKENIZERS[rule].patterns]
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.pre_tokenizer = pre_tokenizers.Sequence([*splits, byte_level])
    return ModelTokenizer(made)


def sentencepiece() -> ModelTokenizer:
    """A tokenizer of letters with byte fallback, like that of Llama 2."""
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
    """A tokenizer that records the texts that it encodes."""

    def __init__(self, made: ModelTokenizer) -> None:
        super().__init__(made.library)
        self.encoded: list[str] = []

    def encode_all(self, texts: Sequence[str]) -> list[Encoding]:
        self.encoded += filter(None, texts)
        return super().encode_all(texts)


@pytest.fixture
def counting() -> Counting:
    return Counting(tokenizer())


def encoder_of(made: ModelTokenizer, most_bytes: int = ROOM) -> CachingEncoder:
    return CachingEncoder(made, ControlTokens(made.added), most_bytes=most_bytes)


def spells_all(made: ModelTokenizer, text: str) -> bool:
    """Whether each control token among the ids of a text is one that the text spells."""
    control = ControlTokens(made.added)
    return sum(each in control.ids for each in made.encode(text)) <= len(list(control.spans(text)))


@pytest.mark.parametrize("name", TOKENIZERS)
@given(st.lists(st.lists(PIECES, max_size=12), max_size=4), st.sampled_from([0, 400, 900, ROOM]), st.integers(0, 30))
@example([["\n\n", "ab"]], ROOM, 0)  # the text spells "\na", but the tokenizer finds "\n\n"
def test_cached_encoding_equals_the_tokenizer_for_any_cache_content(
    name: str, texts: list[list[str]], most_bytes: int, apart: int
) -> None:
    made = TOKENIZERS[name]
    encoder = encoder_of(made, most_bytes)
    for pieces in [*texts, *texts, [piece for text in texts for piece in text]]:
        text = "".join(pieces)
        try:
            encoded = encoder.encode([text], apart=apart)
        except UnspeltControlToken:
            assert not spells_all(made, text)
        else:
            ids = made.encode(text)
            assert (encoded.tokens, list(encoded.ids)) == (len(ids), ids)


@given(st.lists(st.lists(PIECES, min_size=1, max_size=6), min_size=1, max_size=8), st.data())
def test_growing_and_branching_chat_is_encoded_as_its_text(turns: list[list[str]], data: st.DataObject) -> None:
    encoder = encoder_of(tokenizer(), data.draw(st.sampled_from([900, 3_000, 100 * ROOM])))
    prompts = ["<|im_start|>"]
    for pieces in turns:
        said = "".join(pieces) + "<|im_end|>"
        prompts.append(data.draw(st.sampled_from(prompts)) + said + "<|im_start|>")
        assert list(encoder.encode([prompts[-1]]).ids) == tokenizer().encode(prompts[-1])


def chat(*messages: str) -> str:
    """A ChatML prompt, which ends with the beginning of the next message."""
    return "".join(f"<|im_start|>{message}<|im_end|>\n" for message in messages) + "<|im_start|>assistant\n"


def test_only_new_messages_of_a_chat_are_encoded(counting: Counting) -> None:
    encoder = encoder_of(counting)
    encoder.encode([chat("user\nHello")])
    counting.encoded.clear()
    encoder.encode([chat("user\nHello", "assistant\nHi", "user\nGo on")])
    assert (
        "".join(counting.encoded)
        == "assistant\nHi<|im_end|>\n<|im_start|>user\nGo on<|im_end|>\n<|im_start|>assistant\n"
    )


def test_repeated_prompt_is_encoded_from_its_last_marker_on(counting: Counting) -> None:
    encoder = encoder_of(counting)
    first = encoder.encode(["a<|im_end|>b<|im_end|>c"])
    counting.encoded.clear()
    assert encoder.encode(["a<|im_end|>b<|im_end|>c"]) == first
    assert counting.encoded == ["c"]


def test_prompt_with_a_changed_end_is_found_before_the_change(counting: Counting) -> None:
    """Some templates begin the answer with empty reasoning and leave that reasoning out of the history."""
    encoder = encoder_of(counting)
    encoder.encode([chat("user\nHello") + "<file_sep>\n\n<filename>\n\n"])
    counting.encoded.clear()
    encoder.encode([chat("user\nHello", "assistant\nHi")])
    assert "".join(counting.encoded) == "assistant\nHi<|im_end|>\n<|im_start|>assistant\n"


def test_prefix_before_a_long_answer_is_found(counting: Counting) -> None:
    encoder = encoder_of(counting)
    encoder.encode([chat("user\nHello")])
    counting.encoded.clear()
    answer = "assistant\n" + "word " * 20_000
    encoder.encode([chat("user\nHello", answer)])
    assert "".join(counting.encoded) == f"{answer}<|im_end|>\n<|im_start|>assistant\n"


def test_text_behind_a_changed_beginning_is_found(counting: Counting) -> None:
    encoder = encoder_of(counting)
    for said in ("Be brief.", "Be kind."):
        counting.encoded.clear()
        encoder.encode([chat(f"system\n{said}", "user\nHello")], apart=10)
    assert "".join(counting.encoded) == "system\nBe kind.<|im_end|>assistant\n"


def test_a_long_prompt_is_encoded_in_blocks(counting: Counting) -> None:
    text = chat(*(f"user\n{number} {'word ' * 200}" for number in range(20)))
    assert list(encoder_of(counting).encode([text]).ids) == tokenizer().encode(text)
    assert max(map(len, counting.encoded)) < BLOCK_CHARS + 1_100
    assert len(counting.encoded) < 10 + NODES_MAX


def test_prompt_over_the_token_limit_is_counted_and_not_cached(counting: Counting) -> None:
    encoder = encoder_of(counting)
    text = chat("user\nHello")
    tokens = len(tokenizer().encode(text))
    assert encoder.encode([text], most_tokens=tokens - 1) == Encoded(tokens, ())
    assert encoder._cache.bytes == 0
    assert list(encoder.encode([text], most_tokens=tokens).ids) == tokenizer().encode(text)


def test_cache_without_room_encodes_each_prompt_in_one_piece(counting: Counting) -> None:
    encoder = encoder_of(counting, 0)
    for _ in range(2):
        encoder.encode(["a<|im_end|>b"])
    assert counting.encoded == ["a<|im_end|>b"] * 2


def test_prompt_of_a_tokenizer_that_marks_the_first_word_is_not_cut() -> None:
    made = Counting(TOKENIZERS["marks the first word"])
    encoder_of(made).encode(["a<x>b"])
    assert made.encoded == ["a<x>b"]


def test_prompts_with_a_common_prefix_do_not_mix() -> None:
    """All tenants share the cache. An entry is found only by the whole text before it."""
    encoder = encoder_of(tokenizer(), 100 * ROOM)
    for secret in ("alpha", "beta", "alpha", "gamma"):
        text = chat("user\nHello", f"assistant\n{secret}", "user\nHello")
        assert tokenizer().decode(encoder.encode([text]).ids) == text


def next_prompt(prompt: str, answer: str, *, close: str = "<|im_end|>") -> str:
    return f"{prompt}{answer}{close}\n{chat('user', 'And then?')}<|im_start|>assistant\n"


@pytest.mark.parametrize("rule", ["smollm2", *(f"smollm2 as {rule}" for rule in ("llama3", "qwen2", "tekken"))])
@given(
    st.lists(st.lists(PIECES.filter(lambda piece: piece not in MARKERS), max_size=12), min_size=2, max_size=10),
    st.randoms(use_true_random=False),
)
def test_prompts_extend_the_ids_that_the_engine_wrote(rule: str, answers: list[list[str]], chance: Random) -> None:
    made = TOKENIZERS[rule]
    encoder = encoder_of(made, 100 * ROOM)
    text, engine = chat("user", "Hello") + "<|im_start|>assistant\n", list[int]()
    for pieces in answers:
        answer = "".join(pieces)
        if list(encoder._control.spans(answer)) or made.decode(made.encode(answer)) != answer:
            continue  # the vocabulary lacks a byte of it
        encoded = encoder.encode([text])
        assert list(encoded.ids[: len(engine)]) == engine
        assert made.decode(encoded.ids) == text
        assert encoded.tokens == len(encoded.ids)
        assert encoded.end is not None
        written = split_some(made, made.encode(answer), chance)
        encoder.remember(encoded.end, written)
        engine = [*encoded.ids, *written]
        text = next_prompt(text, answer, close=chance.choice(["<|im_end|>", "<|im_start|>"]))


def test_each_branch_behind_a_prompt_extends_its_own_answer() -> None:
    encoder, chance = encoder_of(tokenizer(), 100 * ROOM), Random(1)
    prompt = encoder.encode([chat("user", "Hello") + "<|im_start|>assistant\n"])
    text = tokenizer().decode(prompt.ids)
    answers = [f"The {number}th answer is different from the others." for number in range(3)]
    written = [split_some(tokenizer(), tokenizer().encode(answer), chance, share=0.9) for answer in answers]
    assert prompt.end is not None
    for ids in written:
        encoder.remember(prompt.end, ids)
    for answer, ids in zip(answers, written, strict=True):
        engine = [*prompt.ids, *ids]
        assert ids != tokenizer().encode(answer)
        assert list(encoder.encode([next_prompt(text, answer)]).ids[: len(engine)]) == engine


def test_remembered_answer_is_not_encoded_again(counting: Counting) -> None:
    encoder = encoder_of(counting, 100 * ROOM)
    prompt = chat("user", "Hello") + "<|im_start|>assistant\n"
    end = encoder.encode([prompt]).end
    assert end is not None
    ids = tokenizer().encode("A long answer.")
    encoder.remember(end, ids)
    counting.encoded.clear()
    assert encoder.encode([next_prompt(prompt, "A long answer.")]).spliced == len(ids)
    assert "answer" not in "".join(counting.encoded)


def test_ids_outside_the_vocabulary_are_not_remembered() -> None:
    encoder = encoder_of(tokenizer(), 100 * ROOM)
    prompt = chat("user", "Hello") + "<|im_start|>assistant\n"
    for wrong in (-1, tokenizer().size, 2**32):
        end = encoder.encode([prompt]).end
        assert end is not None
        encoder.remember(end, [*tokenizer().encode("One"), wrong, *tokenizer().encode(" two")])
    text = next_prompt(prompt, "One two")
    assert list(encoder.encode([text]).ids) == tokenizer().encode(text)


@pytest.mark.parametrize("most_bytes", [0, 400])
def test_cache_without_room_for_an_answer_encodes_its_text(most_bytes: int) -> None:
    encoder = encoder_of(tokenizer(), most_bytes)
    prompt = chat("user", "Hello") + "<|im_start|>assistant\n"
    end = encoder.encode([prompt]).end
    if end is not None:
        encoder.remember(end, split_some(tokenizer(), tokenizer().encode("An answer of some words"), Random(1)) * 50)
    text = next_prompt(prompt, "An answer of some words" * 50)
    assert list(encoder.encode([text]).ids) == tokenizer().encode(text)
    assert encoder._cache.bytes <= most_bytes


def test_texts_of_two_salts_share_nothing_in_the_cache() -> None:
    encoder = encoder_of(tokenizer())
    text = chat("user Hi", "assistant Hello", "user Bye")
    ids, sizes = [], []
    for salt in ("", "", "a", "a", "b"):
        ids.append(list(encoder.encode([text], salt=salt).ids))
        sizes.append(encoder._cache.bytes)
    assert ids == [tokenizer().encode(text)] * 5
    assert sizes == [size * sizes[0] for size in (1, 1, 2, 2, 3)]


def test_threads_share_the_prompt_cache() -> None:
    encoder = encoder_of(tokenizer(), 3_000)
    texts = [f"{'<|im_end|>'.join(str(n * m) for m in range(9))}" for n in range(40)] * 5

    def is_right(text: str) -> bool:
        return list(encoder.encode([text]).ids) == tokenizer().encode(text)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(is_right, texts))
    assert encoder._cache.bytes <= 3_000


def test_ids_packed_in_pieces_equal_those_of_the_tokenizer() -> None:
    text = "word " * (3 * PIECE_IDS)
    ids = tokenizer().encode(text)
    assert len(ids) > 2 * PIECE_IDS
    assert list(encoder_of(tokenizer()).encode([text]).ids) == ids


def test_a_control_token_in_the_last_piece_is_found() -> None:
    made = tokenizer()
    encoder = encoder_of(made)
    text = "word " * PIECE_IDS + chat("user")
    plan = encoder._plan(text, b"", ())
    with pytest.raises(UnspeltControlToken):
        encoder._require_spelt(plan, [array("I", [*made.encode(text), *encoder._control.ids])])
