from __future__ import annotations

from typing import Any

import pytest

from antiphon_core import limits
from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object, dumps
from antiphon_core.ports.translator import Turn
from antiphon_translator.conversation import Image
from antiphon_translator.media import turn_media
from antiphon_translator.media.downloads import Download
from antiphon_translator.media.sight import Sight
from antiphon_translator.media.turn_media import TurnMedia
from tests.support.images import JPEG, PNG, data_url, image_part, user

FILE: Object = {"type": "input_file", "file_url": "https://a.example/f"}
URLS = [f"https://a.example/{n}" for n in range(4)]


def turn(history: Any, given: Any) -> Turn:
    return Turn("resp_1", 0, b'{"model": "m"}', dumps(history), dumps(given))


def test_only_images_and_files_are_media() -> None:
    assert turn_media.is_media({"type": "input_image"})
    assert turn_media.is_media({"type": "input_file"})
    for other in ({"type": "input_text"}, {"type": ["input_file"]}, {}, "input_file", None):
        assert not turn_media.is_media(other)


def test_media_parts_become_images_and_texts() -> None:
    media = TurnMedia(Sight.NATIVE, {URLS[0]: Download(JPEG)})
    assert media.read(image_part(), "p") == Image(PNG, "png", 3, 2)
    assert media.read(image_part(URLS[0]), "p") == Image(JPEG, "jpeg", 3, 2)
    text = media.read({"type": "input_file", "file_data": data_url(b"x", "text/plain")}, "p")
    assert text == '<file name="file">\nx\n</file>'


@pytest.mark.parametrize("part", [image_part(file_id="file_1"), {"type": "input_file", "file_id": "file_1"}])
def test_part_with_a_file_id_is_rejected(part: Object) -> None:
    with pytest.raises(InvalidRequest, match="no Files API") as caught:
        TurnMedia(Sight.NATIVE).read(part, "input[0].content[0]")
    assert (caught.value.field, caught.value.code) == ("input[0].content[0].file_id", "unsupported_parameter")


def test_images_over_the_number_limit_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "IMAGES_ITEMS_MAX", 2)
    media = TurnMedia(Sight.NATIVE)
    for _ in range(2):
        media.read(image_part(), "p")
    with pytest.raises(InvalidRequest, match="at most 2 images") as caught:
        media.read(image_part(), "q")
    assert caught.value.field == "q"


def test_images_and_files_over_their_common_size_limit_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MEDIA_BYTES_MAX", len(PNG) + 10)
    media = TurnMedia(Sight.NATIVE)
    media.read(image_part(), "p")
    with pytest.raises(InvalidRequest, match="all images and files of a turn") as caught:
        media.read({"type": "input_file", "file_data": data_url(b"x" * 11, "text/plain")}, "q")
    assert caught.value.field == "q"


def test_urls_are_found_in_history_outputs_and_input() -> None:
    result = {"type": "function_call_output", "call_id": "c", "output": [image_part(URLS[1])]}
    given = turn([user(image_part(URLS[0])), result], [user("Hi", FILE, image_part(), image_part(URLS[0]))])
    assert turn_media.may_name_urls(given)
    assert turn_media.wanted_urls(given, Sight.NATIVE) == {
        URLS[0]: limits.IMAGE_BYTES_MAX,
        URLS[1]: limits.IMAGE_BYTES_MAX,
        FILE["file_url"]: limits.FILE_BYTES_MAX,
    }


def test_address_of_a_screenshot_is_wanted() -> None:
    screen = {"type": "computer_screenshot", "image_url": URLS[0]}
    given = turn([], [{"type": "computer_call_output", "call_id": "c", "output": screen}])
    assert turn_media.wanted_urls(given, Sight.NATIVE) == {URLS[0]: limits.IMAGE_BYTES_MAX}
    assert turn_media.wanted_urls(given, Sight.PLACEHOLDER) == {}


@pytest.mark.parametrize("sight", [Sight.PLACEHOLDER, Sight.REFUSE])
def test_no_image_is_fetched_for_a_model_that_cannot_see(sight: Sight) -> None:
    given = turn([], [user(image_part(URLS[0]), FILE)])
    assert turn_media.wanted_urls(given, sight) == {FILE["file_url"]: limits.FILE_BYTES_MAX}


def test_url_of_an_image_and_a_file_is_fetched_once_with_the_larger_limit() -> None:
    both = turn([], [user({"type": "input_file", "file_url": URLS[0]}, image_part(URLS[0]))])
    assert turn_media.wanted_urls(both, Sight.NATIVE) == {URLS[0]: limits.IMAGE_BYTES_MAX}
    other = turn([], [user(image_part(URLS[0]), {"type": "input_file", "file_url": URLS[0]})])
    assert turn_media.wanted_urls(other, Sight.NATIVE) == {URLS[0]: limits.IMAGE_BYTES_MAX}


def test_urls_over_the_image_limit_are_not_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "IMAGES_ITEMS_MAX", 2)
    given = turn([], [user(*map(image_part, URLS))])
    assert list(turn_media.wanted_urls(given, Sight.NATIVE)) == URLS[:2]


@pytest.mark.parametrize(
    "items",
    [
        [7, None, "x", []],
        [{"content": "input_image"}, {"content": {"image_url": "u"}}, {"output": 7}],
        [user(image_part(7))],  # type: ignore[arg-type]
        [{"role": "user", "content": [7, None, {"type": "input_image"}]}],
    ],
)
def test_malformed_parts_yield_no_urls(items: Any) -> None:
    assert turn_media.wanted_urls(turn([], items), Sight.NATIVE) == {}


def test_turn_without_media_names_no_urls() -> None:
    assert not turn_media.may_name_urls(turn([user("Hi")], [user("a url")]))
