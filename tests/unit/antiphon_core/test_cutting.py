from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from antiphon_core.cutting import cut

TEXTS = st.text(alphabet=st.characters(exclude_categories=()))  # lone surrogates, too


def test_what_fits_stays_as_it_is() -> None:
    assert cut("0123456789" * 2, 20) == "0123456789" * 2
    assert cut("\ud800", 3) == "\ud800"


def test_of_what_does_not_fit_both_ends_are_kept() -> None:
    assert cut("Unknown parameter: 'xxxxxxxxxxxxxxxxxxxxxxxxxx'. Leave it out.", 49) == (
        "Unknown parameter: 'x [...] xxxxx'. Leave it out."
    )


def test_no_letter_is_cut_in_two() -> None:
    assert cut("é漢😀" * 100, 24) == "é漢 [...] 漢😀"


@given(TEXTS, st.integers(16, 64))
def test_it_is_never_longer(text: str, bytes_max: int) -> None:
    assert len(cut(text, bytes_max).encode(errors="surrogatepass")) <= bytes_max
