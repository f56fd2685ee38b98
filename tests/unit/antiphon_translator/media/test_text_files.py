from __future__ import annotations

import pytest

from antiphon_translator.media import text_files
from antiphon_translator.media.text_files import NotText


@pytest.mark.parametrize(
    ("media_type", "name"),
    [
        ("text/plain", "file"),
        ("text/x-anything", "a.bin"),
        ("application/json", "file"),
        ("application/vnd.api+json", "file"),
        ("image/svg+xml", "a.svg"),
        ("", "notes.MD"),
        ("", "src/main.rs"),
        ("application/octet-stream", "query.sql"),
        ("", "Makefile"),
        ("", "project/.env"),
        ("", "deploy/Dockerfile"),
    ],
)
def test_text_file_is_detected_by_its_media_type_or_name(media_type: str, name: str) -> None:
    assert text_files.read(b"x\r\n\ty\x1b[0m", media_type=media_type, name=name) == "x\r\n\ty\x1b[0m"


@pytest.mark.parametrize(
    ("content", "media_type", "name", "why"),
    [
        (b"%PDF-1.7 plain", "text/plain", "a.txt", "PDF"),
        (b"x", "application/pdf", "a.txt", "application/pdf is not known to be text"),
        (b"x", "application/vnd.openxmlformats-officedocument.wordprocessingml.document", "a", "not known to be text"),
        (b"x", "image/png", "a.png", "image/png"),
        (b"x", "", "a.docx", "'a.docx' is not known to be text"),
        (b"x", "", "file", "'file' is not known"),
        (b"\xff\xfex\0", "text/plain", "a.txt", "not UTF-8"),
        (b"caf\xe9", "text/plain", "a.txt", "not UTF-8"),
        (b"PK\x03\x04", "text/plain", "a.txt", "control characters"),
        (b"a\0b", "text/csv", "a.csv", "control characters"),
    ],
)
def test_file_that_is_not_text_is_rejected_with_the_reason(
    content: bytes, media_type: str, name: str, why: str
) -> None:
    with pytest.raises(NotText, match=why):
        text_files.read(content, media_type=media_type, name=name)


def test_byte_order_mark_is_removed() -> None:
    assert text_files.read(b"\xef\xbb\xbfx", media_type="text/plain", name="a") == "x"


@pytest.mark.parametrize(
    ("text", "name", "shown"),
    [
        ("# Notes\n", "notes.md", '<file name="notes.md">\n# Notes\n</file>'),
        ("x", 'a"b\n.md', '<file name="a\\"b\\n.md">\nx\n</file>'),
        ("", "a", '<file name="a">\n\n</file>'),
    ],
)
def test_shown_file_has_tags_around_its_text(text: str, name: str, shown: str) -> None:
    assert text_files.show_file(text, name) == shown
