from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from antiphon import banner
from antiphon.logs import LogSettings
from antiphon.settings import Settings
from antiphon.targets import Process, build
from antiphon_core.jsons import loads
from antiphon_edge.settings import EdgeSettings, WorkerSettings
from antiphon_store.settings import StoreSettings
from antiphon_translator.settings import TranslatorSettings


async def test_the_banner_shows_all_parts_and_a_valid_curl_line(tmp_path: Path) -> None:
    settings = Settings(
        edge=EdgeSettings(port=0),
        worker=WorkerSettings(),
        translator=TranslatorSettings(port=0, profiles=tmp_path),
        store=StoreSettings(url="memory://", port=0),
        log=LogSettings(),
    )
    process = Process(settings)
    parts = build(["all"], process)
    for part in parts:
        await part.start()
    text = banner.welcome(process, models=["toy's", "other"], engine="Triton at 127.0.0.1:1")
    for part in reversed(parts):
        await part.stop()
    assert process.edge is not None
    assert f"edge        {process.edge.url}/v1 (no authentication)\n" in text
    assert f"console     {process.edge.url}/console\n" in text
    assert "worker      64 background responses at a time\n" in text
    assert "(gRPC, no authentication)  memory://, durability memory" in text
    assert "model       toy's\nmodel       other\n" in text
    assert "engine      Triton at 127.0.0.1:1\n" in text
    (line,) = [line for line in text.splitlines() if line.startswith("  curl ")]
    words = shlex.split(line)
    assert words[1] == f"{process.edge.url}/v1/responses"
    assert loads(words[-1])["model"] == "toy's"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://:secret@host:6379/0", "redis://:***@host:6379/0"),
        ("postgresql://me:s3:cr3t@host/db", "postgresql://me:***@host/db"),
        ("postgresql://me@host/db", "postgresql://me@host/db"),
        ("redis+sentinel://u:p@h1,h2/m?sentinel_password=zz", "redis+sentinel://u:***@h1,h2/m?sentinel_password=***"),
        ("postgresql://me:p@ss/w:rd?#@host:5432/db", "postgresql://me:***@host:5432/db"),
        ("postgresql://host/db?user=me&password=s&x=1", "postgresql://host/db?user=me&password=***&x=1"),
        ("host=h password='a b' dbname=x", "host=h password=*** dbname=x"),
        ("sqlite:////data/a:b@c.db", "sqlite:////data/a:b@c.db"),
    ],
)
def test_passwords_in_store_urls_are_masked(url: str, shown: str) -> None:
    assert banner.without_password(url) == shown
