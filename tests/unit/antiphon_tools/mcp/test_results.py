from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon_core.ports.tools import Outcome
from antiphon_tools.mcp.results import IMAGES_ITEMS_MAX, read_result, shorten

PNG = {"type": "image", "mimeType": "image/png", "data": "iVBORw0K"}


@pytest.mark.parametrize(
    ("block", "text"),
    [
        ({"type": "text", "text": "hi"}, "hi"),
        ({"type": "image", "mimeType": "image/tiff", "data": "AAAA"}, "[image, image/tiff, 3 bytes, not shown]"),
        ({"type": "audio", "mimeType": "audio/wav", "data": "AAAA"}, "[audio, audio/wav, 3 bytes, not shown]"),
        (
            {"type": "resource_link", "uri": "http://169.254.169.254/", "name": "keys"},
            '[link to a resource: {"uri":"http://169.254.169.254/","name":"keys"}]',
        ),
        ({"type": "resource", "resource": {"uri": "a:b", "text": "hi"}}, "[resource a:b]\nhi"),
        (
            {"type": "resource", "resource": {"uri": "a:b", "mimeType": "x/y", "blob": "AAAA"}},
            "[resource, x/y a:b, 3 bytes, not shown]",
        ),
        ({"type": "hologram"}, "[content of an unknown type]"),
        (5, "[content of an unknown type]"),
    ],
)
def test_content_is_text_or_named(block: Any, text: str) -> None:
    assert read_result({"content": [block]}, 1_000).text == text


def test_images_become_data_urls_up_to_their_number() -> None:
    result = read_result({"content": [PNG] * (IMAGES_ITEMS_MAX + 1)}, 1_000)
    assert result.images == ("data:image/png;base64,iVBORw0K",) * IMAGES_ITEMS_MAX
    assert result.text.startswith("[image, image/png")


def test_structured_content_is_the_text_where_there_is_no_other() -> None:
    both = read_result({"content": [{"type": "text", "text": "3"}], "structuredContent": {"n": 3}}, 1_000)
    assert (both.text, both.structured) == ("3", b'{"n":3}')
    assert read_result({"content": [], "structuredContent": [1]}, 1_000).text == "[1]"
    assert read_result({"structuredContent": {"n": "x" * 2_000}}, 1_000).structured == b""


@pytest.mark.parametrize(
    ("result", "outcome"),
    [
        ({"content": []}, Outcome.OK),
        ({"content": [], "isError": True}, Outcome.TOOL_ERROR),
        ({"content": [], "isError": "no"}, Outcome.OK),
        ({"resultType": "input_required", "inputRequests": {}}, Outcome.TOOL_ERROR),
        ({}, Outcome.OK),
    ],
)
def test_errors_of_tools_are_their_own_outcome(result: Any, outcome: Outcome) -> None:
    assert read_result(result, 1_000).outcome is outcome


@given(st.text(max_size=400), st.integers(16, 200))
def test_a_shortened_text_keeps_its_beginning_and_its_end_within_the_limit(text: str, bytes_max: int) -> None:
    found, raw = shorten(text, bytes_max), text.encode(errors="replace")
    if len(raw) <= bytes_max:
        assert found == text
        return
    head, note, tail = (
        found.partition("\n\n[... ")[0],
        f"{len(raw) - bytes_max} bytes of",
        found.rpartition("...]\n\n")[2],
    )
    assert note in found
    assert text.encode(errors="replace").decode().startswith(head)
    assert raw.decode().endswith(tail)
    assert len(head.encode()) + len(tail.encode()) <= bytes_max
    assert len(head.encode()) > len(tail.encode()) or bytes_max < 32
