from __future__ import annotations

import pytest

from antiphon_core import limits
from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object
from antiphon_translator.conversation import Image
from antiphon_translator.media import image_parts
from antiphon_translator.media.downloads import Download, Downloads, Failure, Problem
from antiphon_translator.media.sight import Sight
from tests.support.images import GIF, JPEG, PNG, data_url, image_part, png

PATH = "input[0].content[1]"
FETCHED: Downloads = {
    "https://a.example/jpeg": Download(JPEG, "text/html"),
    "https://a.example/page": Download(b"<html>", "image/png"),
    "https://a.example/gone": Failure(Problem.DOWNLOAD, "its server answered with the status 404"),
    "http://a.example/": Failure(Problem.URL, "its URL must begin with https"),
    "https://a.example/large": Failure(Problem.SIZE, "it has more than 20 MiB"),
}


def read(part: Object, sight: Sight = Sight.NATIVE) -> str | Image:
    return image_parts.read(part, PATH, sight, FETCHED)


@pytest.mark.parametrize(
    ("part", "image"),
    [
        (image_part(), Image(PNG, "png", 3, 2)),
        (image_part(data_url(GIF, "image/png"), detail="low"), Image(GIF, "gif", 3, 2, "low")),
        (image_part("https://a.example/jpeg", detail=None), Image(JPEG, "jpeg", 3, 2)),
    ],
)
def test_image_type_is_detected_from_the_bytes(part: Object, image: Image) -> None:
    assert read(part) == image


REFUSED: list[tuple[Object, str, str, str]] = [
    (image_part("data:image/png,x"), ".image_url", "invalid_base64_image", "the form"),
    (image_part("data:image/png;base64,?"), ".image_url", "invalid_base64_image", "not base64"),
    (image_part("data:image/png;base64,"), ".image_url", "empty_image_file", "empty"),
    (image_part(data_url(b"<svg/>", "image/svg+xml")), ".image_url", "unsupported_image_media_type", "no PNG, JPEG"),
    (image_part(data_url(PNG[:18])), ".image_url", "image_parse_error", "broken"),
    (image_part(data_url(png(8193, 8192))), ".image_url", "image_too_large", "8193x8192 pixels, more than 67 million"),
    (image_part("https://a.example/page"), ".image_url", "unsupported_image_media_type", "no PNG, JPEG"),
    (image_part("https://a.example/gone"), ".image_url", "failed_to_download_image", "status 404"),
    (image_part("http://a.example/"), ".image_url", "invalid_image_url", "begin with https"),
    (image_part("https://a.example/large"), ".image_url", "image_file_too_large", "20 MiB"),
    (image_part("https://never.example/"), ".image_url", "failed_to_download_image", "could not be fetched"),
    ({"type": "input_image"}, ".image_url", "invalid_type", "must be a string"),
    ({"type": "input_image", "image_url": {"url": "u"}}, ".image_url", "invalid_type", "must be a string"),
]


@pytest.mark.parametrize(("part", "member", "code", "words"), REFUSED)
def test_invalid_image_part_is_rejected_with_code_and_field(part: Object, member: str, code: str, words: str) -> None:
    with pytest.raises(InvalidRequest, match=words) as caught:
        read(part)
    assert (caught.value.field, caught.value.code) == (PATH + member, code)


def test_only_an_image_over_a_size_limit_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(read(image_part(data_url(png(8192, 8192)))), Image)
    monkeypatch.setattr(limits, "IMAGE_BYTES_MAX", len(PNG) - 1)
    with pytest.raises(InvalidRequest) as caught:
        read(image_part())
    assert caught.value.code == "image_file_too_large"


def test_image_for_a_model_without_vision_is_rejected_unread() -> None:
    for url in (data_url(PNG), "nonsense"):
        with pytest.raises(InvalidRequest, match="sees no images") as caught:
            read(image_part(url), Sight.REFUSE)
        assert (caught.value.field, caught.value.code) == (PATH, "unsupported_value")


def test_placeholder_replaces_an_image_of_a_model_without_vision() -> None:
    assert read(image_part(), Sight.PLACEHOLDER) == "[image: 3x2 png, not shown to this model]"
    assert read(image_part("https://a.example/jpeg"), Sight.PLACEHOLDER) == "[image, not shown to this model]"
    with pytest.raises(InvalidRequest):
        read(image_part(data_url(b"x")), Sight.PLACEHOLDER)
