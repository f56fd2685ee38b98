"""The frames of whole turns, byte for byte.

Regenerate them with `python -m tests.golden.translator.test_events` and read the difference, because each change
reaches every client.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from antiphon_core.errors import EngineTimeout
from antiphon_core.ids import SequentialIds
from antiphon_core.ports.translator import Batch, Turn
from antiphon_translator.engines.scripted import ALL_CONTROLS
from antiphon_translator.generation import TokenChunk
from antiphon_translator.pipeline import TurnPipeline
from tests.support.pipelines import pipeline_of
from tests.support.served_models import END_ID, model, tokenizer, turn

FOLDER = Path(__file__).parent


def _play(given: Turn, *, end: Callable[[TurnPipeline], list[Batch]], text: str, stop: bool = False) -> bytes:
    pipeline = pipeline_of(model(), given, controls=ALL_CONTROLS, ids=SequentialIds())
    batches, _ = pipeline.start()
    for token in tokenizer().encode(text) + [END_ID] * stop:
        batches += pipeline.receive([TokenChunk([token])])
    batches += end(pipeline)
    return b"".join(batch.frames for batch in batches)


def _finish(pipeline: TurnPipeline) -> list[Batch]:
    return pipeline.finish(completed_at=1_700_000_002)


SCENARIOS: dict[str, Callable[[], bytes]] = {
    "completed": lambda: _play(turn("Hi", instructions="Be brief."), end=_finish, text="Hello, ☃!", stop=True),
    "incomplete": lambda: _play(turn("Hi", max_output_tokens=2, temperature=0), end=_finish, text="Hello there you"),
    "failed": lambda: _play(
        turn("Hi", metadata={"k": "v"}), end=lambda pipeline: pipeline.fail(EngineTimeout("No token.")), text="Hel"
    ),
    "empty": lambda: _play(turn("Hi"), end=_finish, text="", stop=True),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_frames_of_a_turn_equal_the_recorded_file(name: str) -> None:
    assert SCENARIOS[name]().decode() == (FOLDER / f"{name}.sse").read_text("utf-8")


if __name__ == "__main__":
    for scenario, frames in SCENARIOS.items():
        (FOLDER / f"{scenario}.sse").write_bytes(frames())
