from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from antiphon_translator.lineage.prompt_digest import DIGEST_BYTES, prompt_digests

TEXTS = st.text(st.sampled_from("ab<\u00e9"), max_size=6)


@given(TEXTS, TEXTS, st.integers(0, 8))
def test_digest_of_a_beginning_is_that_of_the_text_alone(text: str, more: str, length: int) -> None:
    found = prompt_digests([text + more], {length, len(text)})
    assert found[len(text)] == prompt_digests([text], [len(text)])[len(text)]
    assert (length in found) is (length <= len(text + more))
    assert {len(digest) for digest in found.values()} == {DIGEST_BYTES}


@given(st.lists(TEXTS, min_size=1, max_size=4), st.lists(TEXTS, min_size=1, max_size=4))
def test_digests_differ_where_texts_or_cuts_before_their_end_do(one: list[str], other: list[str]) -> None:
    def whole(pieces: list[str]) -> bytes:
        return prompt_digests(pieces, [len("".join(pieces))])[len("".join(pieces))]

    def cuts(pieces: list[str]) -> list[int]:
        ends = [len("".join(pieces[:number])) for number in range(1, len(pieces))]
        return [end for end in ends if end < len("".join(pieces))]

    is_same = "".join(one) == "".join(other) and cuts(one) == cuts(other)
    assert (whole(one) == whole(other)) is is_same


def test_a_cut_at_the_end_of_a_beginning_belongs_to_the_rest() -> None:
    """An answer may begin with the rest of a name whose first character ends the prompt."""
    assert prompt_digests(["a<", "b"], [2]) == prompt_digests(["a<b"], [2])
