from __future__ import annotations

import pytest

from antiphon_core.errors import InvalidRequest
from antiphon_translator.media.part_errors import part_error, text_member, too_large


def test_error_names_the_part_the_reason_and_the_code() -> None:
    error = part_error("input[0]", "it is broken", "invalid_image")
    assert (error.message, error.field, error.code) == (
        "'input[0]' cannot be used: it is broken.",
        "input[0]",
        "invalid_image",
    )


@pytest.mark.parametrize(("size", "words"), [(20 * 2**20, "20 MiB"), (2**19, "0.5 MiB")])
def test_error_for_a_large_part_names_the_limit(size: int, words: str) -> None:
    assert f"an image can have at most {words}." in too_large("p", "an image", size, "c").message


@pytest.mark.parametrize("part", [{}, {"image_url": None}, {"image_url": {"url": "u"}}])
def test_text_member_that_is_no_string_is_an_invalid_type(part: dict[str, object]) -> None:
    with pytest.raises(InvalidRequest) as caught:
        text_member(part, "image_url", "input[0]")
    assert (caught.value.field, caught.value.code) == ("input[0].image_url", "invalid_type")
    assert text_member({"image_url": "u"}, "image_url", "input[0]") == "u"
