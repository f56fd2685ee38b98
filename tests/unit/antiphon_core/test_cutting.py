from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from antiphon_core.cutting import cut

TEXTS = st.text(alphabet=st.characters(exclude_categories=()))  # lone surrogates, too


def test_a_text_within_the_limit_is_not_cut() -> None:
    assert cut("0123456789" * 2, 20) == "0123456789" * 2
    assert cut("\ud800", 3) == "\ud800"


def test_a_cut_text_keeps_both_ends() -> None:
    assert cut("Unknown parameter: 'xxxxxxxxxxxxxxxxxxxxxxxxxx'. Leave it out.", 49) == (
        "Unknown parameter: 'x [...] xxxxx'. Leave it out."
    )


def test_a_cut_splits_no_multibyte_character() -> None:
    assert cut("é漢😀" * 100, 24) == "é漢 [...] 漢😀"


@given(TEXTS, st.integers(16, 64))
def test_a_cut_text_is_never_longer_than_the_limit(text: str, bytes_max: int) -> None:
    assert len(cut(text, bytes_max).encode(errors="surrogatepass")) <= bytes_max
