"""The clients of docs/howto/use-with-*.md, and docs/reference/clients.md, the table of the tests that passed with each.

`make clients` writes the page from the results of its tests. `make test` runs the core and checks that the page has a
field for each section of each document.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.support.client_environments import ROOT, Client, features
from tests.support.client_models import MODELS, SEER

PAGE = ROOT / "docs/reference/clients.md"
CLIENTS = (
    Client("openai-python", "openai (Python)", is_core=True),
    Client("openai-node", "openai (npm)", is_core=True),
    Client("pydantic-ai", "Pydantic AI", is_core=True),
    Client("langchain", "LangChain"),
    Client("openai-agents-python", "OpenAI Agents SDK (Python)", is_core=True),
    Client("codex", "Codex CLI", is_core=True),
    Client("ai-sdk", "AI SDK"),
    Client("litellm", "LiteLLM"),
    Client("openai-agents-node", "OpenAI Agents SDK (npm)"),
    Client("llama-index", "LlamaIndex"),
    Client("agent-framework", "Microsoft Agent Framework"),
)
FEATURES = (
    "Text", "Stream", "Conversation", "Functions", "Structured output", "Images", "WebSocket", "Handoffs", "Sessions",
    "Shell", "Patches", "Resume",
)  # fmt: skip
CORE = frozenset({"Text", "Stream", "Functions", "WebSocket", "Handoffs", "Shell"})
"""The features that `make test` tests with the core of the clients."""
_HEAD = """# Other people's clients

Written by `make clients`, which runs every block of the documents against Antiphon with these clients, unmodified and
pinned (`tests/clients/`), before models that answer in the formats of Qwen3, Qwen3.5, Mistral Small and gpt-oss. A
field has the number of models that a section of the document passed with, one where the model has to see; an empty one
has no section. Codex answers behind each of the four, over HTTP and WebSocket, and behind servers of chat completions
that render with their templates.

The requests of [Open WebUI](../howto/use-with-open-webui.md) and [LibreChat](../howto/use-with-librechat.md), written
down from their code, are answered by the same models; these programs themselves are not run.

"""
Results = Mapping[tuple[str, str], tuple[int, int]]
"""Tests that passed and that failed, by client and feature."""


def page(results: Results) -> str:
    lines = ["| client | " + " | ".join(FEATURES) + " |", "|---" * (len(FEATURES) + 1) + "|"]
    for client in CLIENTS:
        title = f"[{client.title}](../howto/{client.page.name})"
        fields = (_field(results.get((client.name, feature))) for feature in FEATURES)
        lines.append(f"| {title} | " + " | ".join(fields) + " |")
    return _HEAD + "\n".join(lines) + "\n"


def models_of(feature: str) -> tuple[str, ...]:
    """The models that a section is tested with. Only SEER accepts images."""
    return (SEER,) if feature == "Images" else tuple(MODELS)


def _field(found: tuple[int, int] | None) -> str:
    if found is None:
        return ""
    passed, failed = found
    return f"{failed} failed" if failed else str(passed)


def expected_fields(written: Path = PAGE) -> list[tuple[str, str, str]]:
    """The fields of the written page, by the clients and features of the documents."""
    rows = [line.split("|")[2:-1] for line in written.read_text("utf-8").splitlines() if line.startswith("| [")]
    return [
        (client.name, feature, field.strip())
        for client, row in zip(CLIENTS, rows, strict=True)
        for feature, field in zip(FEATURES, row, strict=True)
        if feature in features(client) or field.strip()
    ]
