"""The operator's file of tool servers.

    [servers.github]
    url = "https://mcp.github.example/mcp"
    secret_file = "github.token"       # beside this file; sent as a bearer token, to this URL only
    tenants = ["acme"]                 # default: all
    tools = ["search_*", "get_issue"]  # default: all
    approval = "always"                # never, client or always; default: client
    trust_annotations = true           # readOnlyHint and idempotentHint of this server are believed
    deduplicates = true                # the server runs each _meta io.antiphon/call once: calls may be repeated
    parallel = false                   # one call at a time; default: true
    timeout_s = 30                     # of one call; default: tools.call_s
    pins = "github.pins.json"          # {tool: digest}: a tool with another digest is not used

The file is parsed here without I/O but for the files that it names. A mistake is an error with its place: a
misspelled `approval` must not leave a server without one.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from antiphon_core.config import SettingsError
from antiphon_core.egress.urls import EgressRules, UrlRejected, check_url
from antiphon_core.limits import TOOL_LABEL_CHARS_MAX
from antiphon_core.ports.tools import DECLARED_LABEL, Approval
from antiphon_core.rpc.watched import read_secret, read_text

SERVERS_ITEMS_MAX = 1_000
CLIENT = "client"
"""The name in identities and metrics of all servers that requests name by URL. No server of the operator has it."""
_LABEL = re.compile(DECLARED_LABEL)
_TOKEN = re.compile(r"[\x21-\x7e]{1,8192}")
_ANYWHERE = EgressRules(permits=lambda _: True, schemes=("https", "http"))


@dataclass(frozen=True, slots=True)
class OperatorServer:
    """A tool server of the operator. `timeout_s` 0 means the default; no `pins` means that any digest will do."""

    name: str
    url: str
    secret: str = field(default="", repr=False)
    tenants: tuple[str, ...] = ("*",)
    tools: tuple[str, ...] = ("*",)
    approval: Approval = Approval.CLIENT
    trust_annotations: bool = False
    deduplicates: bool = False
    parallel: bool = True
    timeout_s: float = 0.0
    pins: Mapping[str, str] | None = None

    def serves(self, tenant: str) -> bool:
        return "*" in self.tenants or tenant in self.tenants

    def permits(self, tool: str) -> bool:
        return any(fnmatchcase(tool, pattern) for pattern in self.tools)


@dataclass(frozen=True, slots=True)
class ServerFile:
    """The servers by name, and all files that were read for them."""

    servers: Mapping[str, OperatorServer]
    paths: tuple[Path, ...]


def read_server_file(path: Path) -> ServerFile:
    """SettingsError: the file, or one that it names, is unusable; the message has the place and no secret."""
    try:
        content = tomllib.loads(read_text(path, "the file of tool servers"))
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path}: {error}.") from error
    tables = content.pop("servers", {})
    if content or not isinstance(tables, dict):
        raise SettingsError(f"{path}: it has tables [servers.NAME] only.")
    if len(tables) > SERVERS_ITEMS_MAX:
        raise SettingsError(f"{path}: more than {SERVERS_ITEMS_MAX} servers.")
    paths = [path]
    servers = {name: _read_server(name, table, path, paths) for name, table in tables.items()}
    return ServerFile(servers, tuple(paths))


def _read_server(name: str, table: Any, path: Path, paths: list[Path]) -> OperatorServer:
    where = f"{path}: [servers.{name}]"
    if not _LABEL.fullmatch(name) or len(name) > TOOL_LABEL_CHARS_MAX:
        raise SettingsError(
            f"{where}: a name begins with a letter and has at most {TOOL_LABEL_CHARS_MAX} letters, digits, hyphens, "
            "and single underscores between them."
        )
    if name == CLIENT:
        raise SettingsError(f"{where}: the name '{CLIENT}' stands for servers that requests name. Choose another.")
    if not isinstance(table, dict) or "url" not in table:
        raise SettingsError(f"{where} needs a 'url'.")
    members = {member: _read_member(where, member, given) for member, given in table.items()}
    secret, pins = members.pop("secret_file", None), members.pop("pins", None)
    if secret is not None:
        members["secret"] = _read_token(_beside(path, secret, paths))
    if pins is not None:
        members["pins"] = _read_pins(_beside(path, pins, paths))
    return OperatorServer(name, **members)


def _read_member(where: str, member: str, given: Any) -> Any:
    if member not in _MEMBERS:
        raise SettingsError(f"{where} has no '{member}'; there are {', '.join(_MEMBERS)}.")
    must_be, read = _MEMBERS[member]
    value = read(given)
    if value is None:
        raise SettingsError(f"{where} {member} must be {must_be}.")
    return value


def _url(given: Any) -> str | None:
    try:
        return str(check_url(given, _ANYWHERE)) if isinstance(given, str) else None
    except UrlRejected:
        return None


def _text(given: Any) -> str | None:
    return given if isinstance(given, str) and given else None


def _texts(given: Any) -> tuple[str, ...] | None:
    return tuple(given) if isinstance(given, list) and given and all(map(_text, given)) else None


def _switch(given: Any) -> bool | None:
    return given if isinstance(given, bool) else None


def _seconds(given: Any) -> float | None:
    is_number = isinstance(given, (int, float)) and not isinstance(given, bool)
    return float(given) if is_number and 0 < given <= 3_600 else None


def _approval(given: Any) -> Approval | None:
    return Approval(given) if given in list(Approval) else None


_MEMBERS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "url": ("a URL that begins with https:// or http://, without a user name", _url),
    "secret_file": ("the name of a file", _text),
    "tenants": ("a list of names; * is all tenants", _texts),
    "tools": ("a list of names, in which * is any text", _texts),
    "approval": ("never, client or always", _approval),
    "trust_annotations": ("true or false", _switch),
    "deduplicates": ("true or false", _switch),
    "parallel": ("true or false", _switch),
    "timeout_s": ("a number of seconds, up to 3600", _seconds),
    "pins": ("the name of a file", _text),
}


def _beside(path: Path, name: str, paths: list[Path]) -> Path:
    found = path.parent / name
    paths.append(found)
    return found


def _read_token(path: Path) -> str:
    token = read_secret(path, "the secret of a tool server").strip()
    if not _TOKEN.fullmatch(token):
        raise SettingsError(f"{path} must hold a token: printable ASCII characters without spaces.")
    return token


def _read_pins(path: Path) -> Mapping[str, str]:
    try:
        pins = json.loads(read_text(path, "the pins of a tool server"))
    except ValueError as error:
        raise SettingsError(f"{path} is no JSON: {error}.") from error
    if not isinstance(pins, dict) or not all(isinstance(digest, str) for digest in pins.values()):
        raise SettingsError(f"{path} must be a JSON object of tools and their digests.")
    return pins
