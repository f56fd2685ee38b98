"""Attack 15: passwords in database URLs. Neither the banner nor `antiphon config` shows them, in any form of the
URL."""

from __future__ import annotations

import pytest

from antiphon import banner
from antiphon.cli import main

SECRET = "s3cr3t"
FORMS = [
    f"redis://:{SECRET}@host:6379/0",
    f"redis://user:{SECRET}@host",
    f"rediss://user:a@b:{SECRET}/x@host",
    f"redis+sentinel://u:{SECRET}@h1,h2/m",
    f"redis+sentinel://h1,h2/m?sentinel_password={SECRET}",
    f"redis+cluster://u:{SECRET}@h1:1,h2:2",
    f"postgresql://me:{SECRET}@host/db",
    f"postgresql://me:x?{SECRET}#y@host/db",
    f"postgresql://host/db?password={SECRET}",
    f"postgresql://host/db?user=me&PASSWORD={SECRET}&x=1",
    f"postgresql://host/db?sslpassword={SECRET}",
    f"postgresql://host/db?passwd={SECRET}",
    f"postgresql://host/db?pass={SECRET}",
    f"postgresql://host/db?pwd={SECRET}",
    f"postgresql://host/db?token={SECRET}",
    f"postgresql://host/db?client_secret={SECRET}",
    f"lmdb:///file?api_key={SECRET}",
    f"lmdb:///file?apikey={SECRET}",
    f"lmdb:///file?a=1;secret={SECRET}",
    f"host=h password={SECRET} dbname=x",
    f"host=h password = 'a {SECRET}' dbname=x",
    f"host=h password='a\\'{SECRET}' dbname=x",
]


@pytest.mark.parametrize("url", FORMS)
def test_passwords_in_database_urls_are_masked(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert SECRET not in banner.without_password(url)
    assert main(["config", f"--store-url={url}"]) == 0
    printed = capsys.readouterr()
    assert SECRET not in printed.out + printed.err
    assert "***" in printed.out
