from __future__ import annotations

import pytest

from antiphon_core import limits
from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object
from antiphon_translator.media import file_parts
from antiphon_translator.media.downloads import Download, Downloads, Failure, Problem
from tests.support.images import data_url

PATH = "input[0].content[1]"
FETCHED: Downloads = {
    "https://a.example/docs/a%20b.md?x=1": Download(b"# A", "application/octet-stream"),
    "https://a.example/": Download(b"# A", "text/html"),
    "https://a.example/a.pdf": Download(b"%PDF-", "application/pdf"),
    "https://a.example/large.txt": Download(b"x" * (limits.FILE_BYTES_MAX + 1), "text/plain"),
    "https://a.example/gone.txt": Failure(Problem.DOWNLOAD, "it took too long"),
}
NOTES = data_url(b"# Notes", "text/markdown")


def read(**members: object) -> str:
    part: Object = {"type": "input_file"} | members
    return file_parts.read(part, PATH, FETCHED)


@pytest.mark.parametrize(
    ("members", "shown"),
    [
        ({"file_data": NOTES, "filename": "notes.md"}, '<file name="notes.md">\n# Notes\n</file>'),
        ({"file_data": NOTES}, '<file name="file">\n# Notes\n</file>'),
        ({"file_data": data_url(b"x = 1", ""), "filename": "a.py"}, '<file name="a.py">\nx = 1\n</file>'),
        ({"file_url": NOTES}, '<file name="file">\n# Notes\n</file>'),
        ({"file_url": "https://a.example/docs/a%20b.md?x=1"}, '<file name="a b.md">\n# A\n</file>'),
        ({"file_url": "https://a.example/", "filename": "x.md"}, '<file name="x.md">\n# A\n</file>'),
        ({"file_url": "https://a.example/"}, '<file name="file">\n# A\n</file>'),
    ],
)
def test_file_is_shown_as_text_with_its_name(members: Object, shown: str) -> None:
    assert read(**members) == shown


@pytest.mark.parametrize(
    ("members", "member", "code", "words"),
    [
        ({}, "", "invalid_value", "one of 'file_data' and 'file_url'"),
        ({"file_data": NOTES, "file_url": "https://a.example/"}, "", "invalid_value", "one of"),
        ({"file_data": 7}, ".file_data", "invalid_type", "must be a string"),
        ({"file_data": NOTES, "filename": 7}, ".filename", "invalid_type", "must be a string"),
        ({"file_data": "# Notes"}, ".file_data", "invalid_value", "begin with 'data:'"),
        ({"file_data": "https://a.example/"}, ".file_data", "invalid_value", "begin with 'data:'"),
        (
            {"file_data": data_url(b"%PDF-1", "application/pdf")},
            ".file_data",
            "unsupported_value",
            "is a PDF, and only",
        ),
        ({"file_data": data_url(b"x", ""), "filename": "a.docx"}, ".file_data", "unsupported_value", "'a.docx'"),
        ({"file_data": data_url(b"\xff", "text/plain")}, ".file_data", "unsupported_value", "UTF-8"),
        (
            {"file_data": data_url(b"x" * (limits.FILE_BYTES_MAX + 1), "text/plain")},
            ".file_data",
            "invalid_value",
            "1 MiB",
        ),
        ({"file_url": "https://a.example/a.pdf"}, ".file_url", "unsupported_value", "PDF"),
        ({"file_url": "https://a.example/large.txt"}, ".file_url", "invalid_value", "1 MiB"),
        ({"file_url": "https://a.example/gone.txt"}, ".file_url", "invalid_value", "took too long"),
        ({"file_url": "https://never.example/"}, ".file_url", "invalid_value", "could not be fetched"),
        ({"file_url": "data:,"}, ".file_url", "invalid_value", "the form data:TYPE;base64,DATA"),
        ({"file_url": "DATA:text/plain;base64,!!!"}, ".file_url", "invalid_value", "is not base64"),
        ({"file_url": data_url(b"%PDF-1", "application/pdf")}, ".file_url", "unsupported_value", "PDF"),
    ],
)
def test_invalid_file_part_is_rejected_with_code_and_field(members: Object, member: str, code: str, words: str) -> None:
    with pytest.raises(InvalidRequest, match=words) as caught:
        read(**members)
    assert (caught.value.field, caught.value.code) == (PATH + member, code)


@pytest.mark.parametrize("url", ["https://[a.example/a.txt", "https://a\u2100b.example/a.txt"])
def test_address_that_is_no_url_is_rejected_with_its_path(url: str) -> None:
    with pytest.raises(InvalidRequest, match="could not be fetched") as caught:
        read(file_url=url)
    assert (caught.value.field, caught.value.code) == (f"{PATH}.file_url", "invalid_value")
