from __future__ import annotations

import json
from pathlib import Path

import pytest

from antiphon_core.config import SettingsError
from antiphon_core.ports.tools import Approval
from antiphon_tools.server_file import OperatorServer, read_server_file

URL = 'url = "https://mcp.example/mcp"'


def read(folder: Path, text: str) -> dict[str, OperatorServer]:
    (folder / "mcp.toml").write_text(text)
    return dict(read_server_file(folder / "mcp.toml").servers)


def secret(folder: Path, text: str = "canary-1\n", mode: int = 0o600) -> None:
    path = folder / "token"
    path.write_text(text)
    path.chmod(mode)


def test_a_server_has_all_of_its_members(tmp_path: Path) -> None:
    secret(tmp_path)
    (tmp_path / "pins.json").write_text(json.dumps({"search": "abc"}))
    text = f"""
    [servers.github]
    {URL}
    secret_file = "token"
    tenants = ["acme"]
    tools = ["search_*", "get"]
    approval = "always"
    trust_annotations = true
    deduplicates = true
    parallel = false
    timeout_s = 2.5
    pins = "pins.json"
    """
    server = read(tmp_path, text)["github"]
    assert server.secret == "canary-1"
    assert "canary" not in repr(server)
    assert (server.approval, server.timeout_s, server.pins) == (Approval.ALWAYS, 2.5, {"search": "abc"})
    assert (server.trust_annotations, server.deduplicates, server.parallel) == (True, True, False)
    assert [server.serves(tenant) for tenant in ("acme", "acm", "globex")] == [True, False, False]
    assert [server.permits(tool) for tool in ("search_code", "get", "get_all", "delete")] == [True, True, False, False]
    assert read_server_file(tmp_path / "mcp.toml").paths == tuple(
        tmp_path / name for name in ("mcp.toml", "token", "pins.json")
    )


def test_a_server_with_a_url_alone_is_for_all_and_leaves_approval_to_the_request(tmp_path: Path) -> None:
    server = read(tmp_path, f"[servers.a]\n{URL}\n")["a"]
    assert server.serves("anyone")
    assert server.permits("anything")
    assert (server.approval, server.trust_annotations, server.pins) == (Approval.CLIENT, False, None)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[servers.a", "mcp.toml"),
        ("[server.a]\nurl = 'https://a.example'", r"\[servers.NAME\]"),
        ("[servers.a]", "needs a 'url'"),
        ("[servers.'a b']\nurl = 'https://a.example'", "a name begins with a letter"),
        ("[servers.a__b]\nurl = 'https://a.example'", "single underscores"),
        (f"[servers.{'a' * 49}]\nurl = 'https://a.example'", "at most 48 letters"),
        ("[servers.client]\nurl = 'https://a.example'", "the name 'client' stands for"),
        ("[servers.a]\nurl = 'ftp://a.example'", "url must be a URL"),
        ("[servers.a]\nurl = 'https://u:canary@a.example'", "url must be a URL"),
        (f"[servers.a]\n{URL}\naproval = 'always'", "has no 'aproval'"),
        (f"[servers.a]\n{URL}\napproval = 'Always'", "approval must be never, client or always"),
        (f"[servers.a]\n{URL}\napproval = 1", "approval must be"),
        (f"[servers.a]\n{URL}\ntenants = 'acme'", "tenants must be a list"),
        (f"[servers.a]\n{URL}\ntools = []", "tools must be a list"),
        (f"[servers.a]\n{URL}\nparallel = 'no'", "parallel must be true or false"),
        (f"[servers.a]\n{URL}\ntimeout_s = 0", "timeout_s must be"),
        (f"[servers.a]\n{URL}\ntimeout_s = true", "timeout_s must be"),
        (f"[servers.a]\n{URL}\nsecret_file = 'missing'", "missing"),
        (f"[servers.a]\n{URL}\nsecret_file = 'open'", "mode 0644"),
        (f"[servers.a]\n{URL}\nsecret_file = 'two'", "must hold a token"),
        (f"[servers.a]\n{URL}\npins = 'two'", "is no JSON"),
        (f"[servers.a]\n{URL}\npins = 'list'", "must be a JSON object"),
    ],
)
def test_a_mistake_is_named_with_its_place_and_without_secrets(tmp_path: Path, text: str, words: str) -> None:
    for name, content, mode in (("open", "canary", 0o644), ("two", "canary x", 0o600), ("list", "[]", 0o600)):
        (tmp_path / name).write_text(content)
        (tmp_path / name).chmod(mode)
    with pytest.raises(SettingsError, match=words) as caught:
        read(tmp_path, text)
    assert "canary" not in str(caught.value)
