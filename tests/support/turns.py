"""Runs turns of the whole translator to their end, and checks the invariants of every turn.

ran = await run(serving(engine), turn("Hi"))
ran.text, ran.deltas, ran.record["usage"]
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from types import MappingProxyType

from antiphon_core import events
from antiphon_core.fold import fold
from antiphon_core.jsons import Object, loads
from antiphon_core.ports.translator import Batch, Turn
from antiphon_translator.engines import registry
from antiphon_translator.engines.base import Engine
from antiphon_translator.engines.triton_channels import TritonChannels
from antiphon_translator.models.profiles import ModelProfile
from antiphon_translator.service import TranslatorService
from tests.support.in_process import translator_of
from tests.support.pushed import generated
from tests.support.served_models import model
from tests.support.triton import CONTEXT_LENGTH, RunningTriton

_NUMBERS = count(1)


@dataclass(frozen=True)
class Ran:
    """An ended turn."""

    batches: list[Batch]
    log: list[Object]
    record: Object

    @property
    def text(self) -> str:
        """The text of the turn's only message."""
        (item,) = self.record["output"]
        (part,) = item["content"]
        return str(part["text"])

    @property
    def deltas(self) -> list[str]:
        return [event["delta"] for event in self.log if event["type"] == events.OUTPUT_TEXT_DELTA]

    @property
    def usage(self) -> tuple[int, int]:
        """Input and output tokens, whose sum is checked."""
        usage = self.record["usage"]
        assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
        return usage["input_tokens"], usage["output_tokens"]


def engine_on(*servers: RunningTriton, name: str, **changes: object) -> Engine:
    """Returns the engine for a profile with these endpoints. `changes` are members of the profile."""
    addresses = tuple(server.grpc_address for server in servers)
    profile = ModelProfile(name="m", directory=Path(), endpoint=addresses[0], endpoints=addresses, triton_model=name)
    return registry.create(replace(profile, **changes), TritonChannels())  # type: ignore[arg-type]


@asynccontextmanager
async def serving(engine: Engine, **changes: object) -> AsyncIterator[TranslatorService]:
    """Runs a translator whose model `m` is SmolLM2, with changes, on this engine. Both are closed at the end."""
    service = translator_of((model(**({"context_length": CONTEXT_LENGTH} | changes)), engine))
    try:
        yield service
    finally:
        await service.close()


def named(given: Turn, ending: str = "") -> Turn:
    """Returns the turn with its own id, under which servers log it. Scripted models read the end of the id."""
    return replace(given, response_id=f"resp_{next(_NUMBERS)}{ending}")


Happenings = Mapping[int, Callable[[], object]]
"""Callbacks during a turn, by the number of deltas before each."""
NOTHING: Happenings = MappingProxyType({})


async def run(service: TranslatorService, given: Turn, happenings: Happenings = NOTHING) -> Ran:
    """Runs a whole turn."""
    batches: list[Batch] = []
    deltas = 0
    async for batch in generated(service, given):
        batches.append(batch)
        before, deltas = deltas, deltas + batch.frames.count(f'"{events.OUTPUT_TEXT_DELTA}"'.encode())
        for number in range(before + 1, deltas + 1):
            happenings.get(number, lambda: None)()
    log = [event for batch in batches for event in events.decode(batch.frames)]
    ran = Ran(batches, log, fold(log))
    _check(ran)
    return ran


def _check(ran: Ran) -> None:
    """Asserts the invariants of every turn, however the turn ended."""
    kinds = [event["type"] for event in ran.log]
    assert [event["sequence_number"] for event in ran.log] == list(range(len(ran.log)))
    assert [kind for kind in kinds if kind in events.TERMINAL] == kinds[-1:]
    final = ran.batches[-1].final
    assert final is not None
    assert loads(final.body) | {"output": loads(final.output_items)} == ran.record
    messages = [item for item in ran.record["output"] if item["type"] == "message"]
    texts = [part["text"] for message in messages for part in message["content"]]
    assert "".join(ran.deltas) == "".join(texts)
