from __future__ import annotations

import pytest

from antiphon_translator.media import data_url
from antiphon_translator.media.data_url import Data, NotData, TooMuchData


@pytest.mark.parametrize(
    ("url", "data"),
    [
        ("data:text/plain;base64,aGk=", Data("text/plain", b"hi")),
        ("DATA:Text/Plain;charset=utf-8;BASE64,aGk=", Data("text/plain", b"hi")),
        ("data:;base64,", Data("", b"")),
        ("data:image/png;base64,AAEC", Data("image/png", b"\0\1\2")),
    ],
)
def test_data_url_is_decoded(url: str, data: Data) -> None:
    assert data_url.read(url, bytes_max=3) == data


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("https://a.example/", "begin with 'data:'"),
        ("aGk=", "begin with 'data:'"),
        ("data:text/plain,hi", "the form"),
        ("data:text/plain;base64", "the form"),
        ("data:text/plain;base64,aGk", "not base64"),
        ("data:text/plain;base64,aGk=\n", "not base64"),
        ("data:text/plain;base64,a Gk=", "not base64"),
        ("data:text/plain;base64,_-8=", "not base64"),
        ("data:text/plain;base64,aGk=aGk=", "not base64"),
        ("data:text/plain;base64,ä", "not base64"),
    ],
)
def test_malformed_data_url_is_rejected(url: str, why: str) -> None:
    with pytest.raises(NotData, match=why):
        data_url.read(url, bytes_max=100)


@pytest.mark.parametrize("encoded", ["AAECAw==", "AAEC" * 1000, "A" * 4001])
def test_data_over_the_limit_is_rejected_before_it_is_decoded(encoded: str) -> None:
    with pytest.raises(TooMuchData):
        data_url.read("data:;base64," + encoded, bytes_max=3)


def test_data_url_is_detected_by_its_scheme() -> None:
    assert data_url.is_data("Data:,x")
    assert not data_url.is_data("https://data:1/")
