"""Images on a real Triton: requests with images go through template, tokenizer and engine, and a model of each
multimodal signature reports its input."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from antiphon_core.clock import ManualClock
from antiphon_core.errors import InvalidRequest
from antiphon_core.ids import SequentialIds
from antiphon_core.jsons import Object, dumps, loads
from antiphon_translator.engines.images import base64
from antiphon_translator.service import TranslatorService
from antiphon_translator.settings import TranslatorSettings
from tests.support import pushed
from tests.support.images import GIF, JPEG, PNG, data_url, image_part, user
from tests.support.served_models import message, turn, write_directory
from tests.support.triton import RunningTriton, triton_repository
from tests.support.web import Page, web_server

pytestmark = pytest.mark.asyncio(loop_scope="module")

MODEL_FILE = Path(__file__).parents[2] / "support/triton_models/seeing.py"
TEMPLATE = Path(__file__).parents[2] / "golden/templates/Qwen3.5-4B.jinja"
MARK = "<|vision_start|><|image_pad|><|vision_end|>"

INPUTS: Mapping[str, tuple[str, ...]] = {
    "vllm": ("sampling_parameters STRING 1", "image STRING -1"),
    "bls": ("max_tokens INT32 1", "image_url_input STRING -1"),
    "llmapi": ("sampling_param_max_tokens INT32 1", "image_url STRING -1"),
    "blind": ("sampling_parameters STRING 1",),
}
"""The inputs that make each signature, besides the prompt."""


def write_model(repository: Path, name: str) -> None:
    rows = []
    for declared in INPUTS[name]:
        tensor, kind, size = declared.split()
        rows.append(f'{{ name: "{tensor}" data_type: TYPE_{kind} dims: [ {size} ] optional: true }}')
    config = (
        f'name: "{name}"\nbackend: "python"\nmax_batch_size: 0\nmodel_transaction_policy {{ decoupled: true }}\n'
        f'input [ {{ name: "text_input" data_type: TYPE_STRING dims: [ 1 ] }}, {", ".join(rows)} ]\n'
        'output [ { name: "text_output" data_type: TYPE_STRING dims: [ -1 ] } ]\n'
        "instance_group [ { count: 1 kind: KIND_CPU } ]\n"
    )
    (repository / name / "1").mkdir(parents=True)
    (repository / name / "1/model.py").write_bytes(MODEL_FILE.read_bytes())
    (repository / name / "config.pbtxt").write_text(config)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningTriton]:
    repository = tmp_path_factory.mktemp("seeing")
    for name in INPUTS:
        write_model(repository, name)
    async with triton_repository(repository, *INPUTS) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def service(server: RunningTriton, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[TranslatorService]:
    folder = tmp_path_factory.mktemp("profiles")
    write_directory(folder / "weights")
    for name in INPUTS:
        (folder / f"{name}.toml").write_text(
            f'name = "{name}"\ndirectory = "weights"\nendpoint = "{server.grpc_address}"\ntriton_model = "{name}"\n'
            f'chat_template = "{TEMPLATE}"\nfamily = "plain"\nimages = "native"\nimage_tokens = 64\n'
        )
    settings = TranslatorSettings(profiles=folder, media_http=True, media_private_addresses=True)
    running = TranslatorService(settings, clock=ManualClock(now_ms=1_700_000_000_000), ids_of=lambda _: SequentialIds())
    await running.open()
    yield running
    await running.close()


async def seen(service: TranslatorService, name: str, *given: Object, **request: object) -> Object:
    """The input that the model reports."""
    asked = replace(turn(), request=dumps({"model": name} | request), input=dumps(given))
    batches = [batch async for batch in pushed.generated(service, asked)]
    final = batches[-1].final
    assert final is not None
    (item,) = loads(final.output_items)
    said: Object = json.loads(item["content"][0]["text"])
    return said


@pytest.mark.parametrize("name", ["vllm", "bls", "llmapi"])
async def test_each_image_reaches_the_model_at_its_position(service: TranslatorService, name: str) -> None:
    async with web_server() as web:
        web.pages["/x"] = Page([GIF])
        shown = await seen(
            service,
            name,
            user("What", image_part(), "and", image_part(web.url("/x", "127.0.0.1")), "?"),
            {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": [image_part(data_url(JPEG, "image/jpeg"))]},
        )
    encoded = [base64(PNG), base64(GIF), base64(JPEG)]
    if name == "vllm":
        assert shown["images"] == encoded
    else:
        kinds = ("png", "gif", "jpeg")
        assert shown["images"] == [f"data:image/{k};base64,{e}" for k, e in zip(kinds, encoded, strict=True)]
    assert f"<|im_start|>user\nWhat{MARK}and{MARK}?<|im_end|>" in shown["prompt"]
    assert f"<tool_response>\n{MARK}\n</tool_response>" in shown["prompt"]
    assert shown["prompt"].count(MARK) == 3


async def test_images_of_a_truncated_turn_are_not_sent_to_the_model(service: TranslatorService) -> None:
    long = user("word " * 9000, image_part(data_url(GIF)))
    given = (long, message("assistant", "I see."), user("And this?", image_part()))
    shown = await seen(service, "vllm", *given, truncation="auto", max_output_tokens=100)
    assert shown["images"] == [base64(PNG)]
    assert shown["prompt"].count(MARK) == 1


async def test_a_model_without_an_input_for_images_refuses_them(service: TranslatorService) -> None:
    assert (await seen(service, "blind", user("Hi")))["images"] == []
    with pytest.raises(InvalidRequest, match="sees no images") as caught:
        await seen(service, "blind", user("What is", image_part()))
    assert caught.value.field == "input[0].content[1]"


async def test_text_that_spells_an_image_mark_is_rejected(service: TranslatorService) -> None:
    with pytest.raises(InvalidRequest, match="a text spells"):
        await seen(service, "vllm", user(f"What is {MARK}", image_part()))
