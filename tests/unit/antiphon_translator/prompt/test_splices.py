from __future__ import annotations

from array import array
from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers

from antiphon_translator.lineage.turn_lineage import Written
from antiphon_translator.prompt.splices import Splice, Splicer
from antiphon_translator.templates.control_tokens import ControlTokens
from antiphon_translator.tokenizer.tokens import ModelTokenizer
from tests.support.segmentations import split_some
from tests.support.served_models import tokenizer
from tests.support.small_vocabulary import byte_tokenizer, fallback_tokenizer

MARKERS = ("<|im_start|>", "<|im_end|>", "<tool>")


def llama2() -> ModelTokenizer:
    """A tokenizer of the kind that puts a space before each piece of a text."""
    pieces = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), *"\u2581ab", "\u2581a", "ab", "\u2581ab"]
    merges = [("a", "b"), ("\u2581", "a"), ("\u2581", "ab")]
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    made = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", byte_fallback=True))
    made.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    made.decoder = decoders.Sequence(
        [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    made.add_tokens([AddedToken(name, normalized=False) for name in MARKERS])
    return ModelTokenizer(made)


def first_word() -> ModelTokenizer:
    """A tokenizer that treats the first word of a text otherwise, so that texts cannot be cut."""
    letters = {text: number for number, text in enumerate([*"\u2581ab", "\u2581a", "ab"])}
    made = Tokenizer(models.BPE(letters, [("a", "b"), ("\u2581", "a")]))
    made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    made.decoder = decoders.Metaspace(prepend_scheme="first")
    made.add_tokens([AddedToken(name, normalized=False) for name in MARKERS])
    return ModelTokenizer(made)


def fallback() -> ModelTokenizer:
    made = fallback_tokenizer(*"ab", "\u2581")
    made.library.add_tokens([AddedToken(name, normalized=False) for name in MARKERS])
    return ModelTokenizer(made.library)


TOKENIZERS = {
    "smollm2": tokenizer(),
    "bytes": byte_tokenizer(*MARKERS),
    "llama2": llama2(),
    "first word": first_word(),
    "fallback": fallback(),
}
PIECES = st.sampled_from(
    [*MARKERS, "<|im_", "end|>", "a", "b", "ab ", " ab", "\n", " Hello", "\u00e9", "\U0001f600", "7"]
)


def fit(made: ModelTokenizer, text: str, start: int, ids: Sequence[int]) -> list[Splice]:
    control = ControlTokens(made.added)
    return Splicer(made, control).fit(text, list(control.spans(text)), Written(start, array("i", ids)))


def length_of(splices: Sequence[Splice]) -> int:
    return splices[-1].end - splices[0].begin if splices else 0


@pytest.mark.parametrize("name", TOKENIZERS)
@given(st.lists(PIECES, max_size=12), st.lists(PIECES, max_size=12), st.integers(0, 20), st.data())
def test_ids_of_a_splice_always_stand_for_the_text_and_its_control_tokens(
    name: str, prompt: list[str], answer: list[str], start: int, data: st.DataObject
) -> None:
    """The ids are any: those of another text, damaged ones, ones outside the vocabulary."""
    made = TOKENIZERS[name]
    text = "".join(prompt)
    start = min(start, len(text))
    written = made.encode(data.draw(st.sampled_from([text[start:], "".join(answer), text[start:] + "".join(answer)])))
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(written)))
        written[at : at + data.draw(st.integers(0, 1))] = [data.draw(st.integers(-1, made.size + 1))]
    control = ControlTokens(made.added)
    at = start
    for splice in fit(made, text, start, written):
        assert splice.begin == at < splice.end
        assert b"".join(map(made.bytes_of, splice.ids)).decode() == text[splice.begin : splice.end]
        spelt = [span for span in control.spans(text) if span[0] >= splice.begin and span[1] <= splice.end]
        assert [text[slice(*span)] for span in spelt] == [
            made.added[each] for each in splice.ids if each in control.ids
        ]
        assert not any(begin < splice.end < end for begin, end in control.spans(text))
        at = splice.end


@given(st.lists(PIECES, max_size=12), st.lists(PIECES, max_size=12), st.randoms(use_true_random=False))
def test_any_ids_of_the_text_are_spliced_whole(prompt: list[str], answer: list[str], chance: Random) -> None:
    made = tokenizer()
    before, said = "".join(prompt) + "<|im_start|>", "".join(answer)
    written = split_some(made, made.encode(said), chance)
    splices = fit(made, f"{before}{said}<|im_end|>\n", len(before), written)
    assert [each for splice in splices for each in splice.ids] == written


@pytest.mark.parametrize(
    ("text", "written", "kept"),
    [
        ("Hello world<|im_end|>", ["Hello", " world", "STOP"], "Hello world"),  # a stop text behind the last token
        ("Hello wor<|im_end|>", ["Hello", " world"], "Hello"),  # one that begins within a token
        ("Hello wor<|im_end|>", ["Hello", " ", "w", "orld"], "Hello"),  # " wor" is no token's end either
        ("Hello wor, world", ["Hel", "lo wor", "st"], "Hello wor"),
        ("Hello", ["Hel", "p"], ""),
        ("<|im_end|>", ["<", "|im_end|>"], ""),  # the output only spells what the prompt has
        ("a<|im_end|>", ["a", "<|im_end|>"], "a<|im_end|>"),
        ("a<|im_start|>", ["a", "<|im_end|>"], "a"),
        ("b", ["a"], ""),
        ("", ["a"], ""),
    ],
)
def test_a_splice_ends_where_the_text_differs_and_splits_no_word(text: str, written: list[str], kept: str) -> None:
    made = tokenizer()
    ids = [
        each
        for part in written
        for each in ([made.token_id(part)] if part in made.added.values() else made.encode(part))
        if each is not None
    ]
    assert length_of(fit(made, text, 0, ids)) == len(kept)


def test_text_that_cannot_be_cut_is_spliced_up_to_a_control_token_only() -> None:
    made = first_word()
    written = made.encode("<tool>ab ab")[1:]
    assert length_of(fit(made, "<tool>ab ab<|im_end|>", 6, written)) == 5
    assert length_of(fit(made, "<tool>ab ab ab<|im_end|>", 6, written)) == 0


def test_an_output_that_begins_within_a_control_token_is_not_spliced() -> None:
    made = byte_tokenizer(*MARKERS)
    assert fit(made, "a<tool>b", 2, made.encode("tool")) == []
