from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from antiphon_core.errors import InvalidRequest
from antiphon_core.ports.tools import NO_CREDENTIALS, Credentials, ToolServer
from antiphon_core.rpc import watched
from antiphon_tools.settings import ToolsSettings
from antiphon_tools.targets import Targets

SERVERS = """
[servers.github]
url = "https://mcp.github.example/mcp"
secret_file = "token"
tenants = ["acme"]

[servers.open]
url = "http://127.0.0.1:9/mcp"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "token").write_text("canary-1")
    (tmp_path / "token").chmod(0o600)
    path = tmp_path / "mcp.toml"
    path.write_text(SERVERS)
    return path


def targets(**settings: Any) -> Targets:
    return Targets(replace(ToolsSettings(), **settings))


def test_a_label_alone_names_an_operators_server_with_its_secret(file: Path) -> None:
    found = targets(servers=file).find("acme", ToolServer("github"), NO_CREDENTIALS)
    assert found.url == "https://mcp.github.example/mcp"
    assert found.headers == {"authorization": "Bearer canary-1"}
    assert (found.identity, found.metric_name) == ("github https://mcp.github.example/mcp", "github")
    assert "canary" not in repr(found)


@pytest.mark.parametrize(("tenant", "label"), [("globex", "github"), ("acme", "gitlab")])
def test_a_server_of_others_looks_like_one_that_does_not_exist(file: Path, tenant: str, label: str) -> None:
    with pytest.raises(InvalidRequest, match=f"There is no tool server '{label}' here") as caught:
        targets(servers=file).find(tenant, ToolServer(label), NO_CREDENTIALS)
    assert (caught.value.field, caught.value.code) == ("server_label", "tool_server_not_found")


def test_a_url_gets_no_secret_of_the_operator_whatever_its_label(file: Path) -> None:
    known = targets(servers=file, client_hosts=("*",))
    found = known.find("globex", ToolServer("github", "https://mcp.github.example/mcp"), NO_CREDENTIALS)
    assert found.headers == {}
    assert (found.metric_name, found.operator) == ("client", None)
    assert found.identity == "client https://mcp.github.example/mcp"


@pytest.mark.parametrize(
    "url",
    [
        "https://mcp.github.example/mcp",
        "https://MCP.GitHub.example.:443/x/../mcp/?page=1#end",
        "https://mcp.github.example/%6dcp",
    ],
)
def test_the_url_of_an_operators_server_is_rejected_for_those_who_have_its_label(file: Path, url: str) -> None:
    with pytest.raises(InvalidRequest, match="'server_url' cannot be used.*operator's server 'github'") as caught:
        targets(servers=file, client_hosts=("*",)).find("acme", ToolServer("x", url), NO_CREDENTIALS)
    assert (caught.value.field, caught.value.code) == ("server_url", "tool_server_not_allowed")


def test_credentials_of_a_request_reach_a_server_without_a_secret_only(file: Path) -> None:
    given = Credentials("tok")
    assert targets(servers=file).find("acme", ToolServer("open"), given).headers == {"authorization": "Bearer tok"}
    for name, refused in (
        ("authorization", given),
        ("headers", Credentials(headers=(("AUTHORIZATION", "canary"),))),
        ("headers", Credentials(headers=(("X-Forwarded-User", "canary"),))),
    ):
        with pytest.raises(InvalidRequest, match=f"'{name}' must be left out.*'github'") as caught:
            targets(servers=file).find("acme", ToolServer("github"), refused)
        assert caught.value.field == name
        assert "canary" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "url", "words"),
    [
        ({}, "https://a.example/mcp", "tools.client_hosts"),
        ({"client_hosts": ("a.example",)}, "https://b.example/mcp", "names a host"),
        ({"client_hosts": ("*",)}, "http://a.example/mcp", "must begin with https"),
        ({"client_hosts": ("*",)}, "https://u:p@a.example/mcp", "user name"),
        ({"client_hosts": ("*",)}, "file:///etc/passwd", "must begin with https"),
    ],
)
def test_a_url_that_the_settings_exclude_is_rejected(settings: dict[str, Any], url: str, words: str) -> None:
    with pytest.raises(InvalidRequest, match=words) as caught:
        targets(**settings).find("acme", ToolServer("x", url), NO_CREDENTIALS)
    assert (caught.value.field, caught.value.code) == ("server_url", "tool_server_not_allowed")


def test_a_listed_host_is_permitted_over_http_where_the_settings_say_so() -> None:
    known = targets(client_hosts=("*.A.example",), client_http=True)
    assert known.find("acme", ToolServer("x", "http://b.a.example/mcp"), NO_CREDENTIALS).url == "http://b.a.example/mcp"


def test_credentials_are_told_apart_without_being_shown() -> None:
    known = targets(client_hosts=("*",))
    digests = {
        known.find("acme", ToolServer("x", "https://a.example/"), Credentials(token)).credential_digest
        for token in ("", "canary-1", "canary-2", "canary-1")
    }
    assert len(digests) == 3
    assert "canary" not in "".join(digests)


def test_a_changed_file_or_secret_is_read_again(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched, "LOOK_INTERVAL_S", 0.0)
    known = targets(servers=file)
    assert known.names("acme") == ("github", "open")

    def change(path: Path, text: str) -> None:
        path.write_text(text)
        os.utime(path, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns + 1_000_000_000))

    change(file.with_name("token"), "canary-2")
    assert known.find("acme", ToolServer("github"), NO_CREDENTIALS).headers == {"authorization": "Bearer canary-2"}
    (file.parent / "other").write_text("canary-3")
    (file.parent / "other").chmod(0o600)
    change(file, SERVERS.replace('"token"', '"other"'))
    assert known.find("acme", ToolServer("github"), NO_CREDENTIALS).headers == {"authorization": "Bearer canary-3"}
    change(file.parent / "other", "canary-4")
    assert known.find("acme", ToolServer("github"), NO_CREDENTIALS).headers == {"authorization": "Bearer canary-4"}
    change(file, "[servers.github]")
    assert known.names("acme") == ("github", "open")  # the last good content stays
