"""The banner: addresses and a first command to try, printed when everything is up."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from antiphon_core.jsons import dumps

if TYPE_CHECKING:
    from antiphon.targets import Process


def addresses(process: Process) -> str:
    """One line per target: its address and how it authenticates callers."""
    lines = []
    settings = process.settings
    if process.store is not None:
        lines.append(f"store       {process.store.address} (gRPC, {settings.store.access()})  {store_line(process)}")
    if process.translator is not None:
        lines.append(f"translator  {process.translator.address} (gRPC, {settings.translator.access()})")
    if process.tools is not None:
        lines.append(f"tools       {process.tools.address} (gRPC, {settings.tools.access()})")
    if process.edge is not None:
        lines.append(f"edge        {process.edge.url}/v1 ({settings.edge.access()})")
        if settings.edge.console:
            lines.append(f"console     {process.edge.url}/console")
    if process.worker is not None:
        lines.append(f"worker      {settings.worker.slots} background responses at a time")
    return "\n".join(lines)


def welcome(process: Process, *, models: Sequence[str], engine: str) -> str:
    """The banner of `antiphon up`: addresses, models, and a command to paste that asks the first model."""
    assert process.edge is not None  # noqa: S101 - `up` runs all targets
    return "\n".join(
        [
            "",
            "Antiphon is up.",
            "",
            addresses(process),
            *(f"model       {model}" for model in models),
            f"engine      {engine}",
            "",
            "Try it:",
            "",
            "  " + curl_line(process.edge.url, models[0], with_key=process.settings.edge.keys_file is not None),
            "",
        ]
    )


def curl_line(url: str, model: str, *, with_key: bool) -> str:
    """A curl command to paste. With `with_key` it sends the API key in OPENAI_API_KEY, as OpenAI's SDKs do."""
    body = dumps({"model": model, "input": "What is the capital of France?", "temperature": 0}).decode()
    key = ' -H "Authorization: Bearer $OPENAI_API_KEY"' if with_key else ""
    return f"curl {url}/v1/responses{key} -H 'Content-Type: application/json' -d {shlex.quote(body)}"


def store_line(process: Process) -> str:
    """The URL of the store's database, and its durability."""
    assert process.store is not None  # noqa: S101 - `addresses` has checked
    return f"{without_password(process.settings.store.url)}, durability {process.store.service.durability}"


_SECRET = re.compile(
    r"((?:\b|_)(?:password|passwd|pass|pwd|secret|token|sslpassword|api_?key)\s*=\s*)('(?:[^'\\]|\\.)*'|[^&\s;]*)",
    re.IGNORECASE,
)
"""A parameter of a URL, or a word of a libpq connection string, that holds a secret."""


def without_password(url: str) -> str:
    """A store's URL with stars in place of its passwords. A password stands before the last '@' behind
    '://', where it may have an '@', ':' or '/' of its own; in a parameter; or in a libpq connection string."""
    shown = re.sub(r"(://[^:/?#@\s]*):.*@", r"\1:***@", url)
    return _SECRET.sub(r"\1***", shown)


def workers(addresses: str, count: int) -> str:
    """The banner of several workers, which all have the addresses that one of them reported."""
    return f"{addresses}\nworkers     {count} processes, each with all of this"
