"""One real Triton with the packaged model for this folder, and the tokenizer and template made from its GGUF file."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import jinja2
import pytest
import pytest_asyncio
from tokenizers import Tokenizer

from antiphon_local_triton.model_directory import CHATML_TEMPLATE, build_model_directory
from antiphon_local_triton.repository import write_model_repository
from antiphon_local_triton.server_venv import read_layout
from tests.support.token_client import TokenClient
from tests.support.triton import RunningTriton, server_venv, triton_repository

CONTEXT_LENGTH = 1024
SLOTS = 4
END_ID = 2


@dataclass(frozen=True, slots=True)
class Chat:
    """Renders and decodes prompts like the translator."""

    tokenizer: Tokenizer
    template: jinja2.Template

    def prompt(self, *turns: str) -> list[int]:
        """The ids of a chat whose turns are user, assistant, user, ..."""
        roles = ("user", "assistant")
        messages = [{"role": roles[number % 2], "content": turn} for number, turn in enumerate(turns)]
        return self.encode(self.template.render(messages=messages, add_generation_prompt=True))

    def encode(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False).ids)

    def decode(self, ids: list[int]) -> str:
        return str(self.tokenizer.decode(ids, skip_special_tokens=False))


@pytest.fixture(scope="session")
def packaged_gguf() -> Path:
    return read_layout(server_venv()).packaged_gguf


@pytest.fixture(scope="session")
def chat(packaged_gguf: Path, tmp_path_factory: pytest.TempPathFactory) -> Chat:
    template = CHATML_TEMPLATE.read_text("utf-8")
    directory = build_model_directory(
        packaged_gguf, tmp_path_factory.mktemp("model") / "smollm2", chat_template=template
    )
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True, autoescape=False)
    return Chat(Tokenizer.from_file(str(directory / "tokenizer.json")), environment.from_string(template))


@pytest.fixture(scope="session")
def repository(packaged_gguf: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("repository") / "models"
    return write_model_repository(out, gguf=packaged_gguf, context_length=CONTEXT_LENGTH, slots=SLOTS)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def server(repository: Path) -> AsyncIterator[RunningTriton]:
    async with triton_repository(repository) as running:
        yield running


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def client(server: RunningTriton) -> AsyncIterator[TokenClient]:
    client = TokenClient(server.grpc_address)
    yield client
    await client.close()
