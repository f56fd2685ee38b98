"""Recorded streams of a real engine, cut differently, make equal responses: chunk boundaries mean nothing.

The recordings were made by record.py; the cuts are drawn anew from seeds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon_core import events
from antiphon_core.fold import fold
from antiphon_core.ids import SequentialIds
from antiphon_core.jsons import Object, loads
from antiphon_translator.engines.scripted import ALL_CONTROLS
from antiphon_translator.generation import TokenChunk
from tests.support.pipelines import pipeline_of
from tests.support.served_models import model, tokenizer, turn

RECORDINGS: dict[str, Object] = {path.stem: loads(path.read_bytes()) for path in Path(__file__).parent.glob("*.json")}


def play(recording: Object, batches: Iterable[list[list[int]]]) -> list[Object]:
    """The events that a recording makes when it arrives in these batches of messages."""
    given_turn = turn(recording["text"], **recording["parameters"])
    pipeline = pipeline_of(model(context_length=1024), given_turn, controls=ALL_CONTROLS, ids=SequentialIds())
    made, _ = pipeline.start()
    for batch in batches:
        made += pipeline.receive([TokenChunk(tuple(message)) for message in batch])
    made += pipeline.finish(completed_at=1_700_000_002)
    return [event for one in made for event in events.decode(one.frames)]


def cut(ids: list[int], random: Random) -> Iterator[list[list[int]]]:
    """Cuts ids into messages of random sizes, and these into batches of random sizes."""
    while ids:
        batch = []
        for _ in range(random.randint(1, 3)):
            size = random.randint(1, 9)
            batch.append(ids[:size])
            ids = ids[size:]
        yield [message for message in batch if message]


def without_boundaries(log: Iterable[Object]) -> list[Object]:
    """A log with neighbouring deltas joined and numbers, which count deltas, taken out."""
    plain: list[Object] = []
    for event in log:
        bare = {name: value for name, value in event.items() if name != "sequence_number"}
        if plain and "delta" in bare and "delta" in plain[-1]:
            plain[-1]["delta"] += bare["delta"]
        else:
            plain.append(bare)
    return plain


def test_the_recordings_have_what_makes_cutting_hard() -> None:
    ids = list(chain.from_iterable(RECORDINGS["scripts"]["messages"] + RECORDINGS["half"]["messages"]))
    halves = sum("\ufffd" in tokenizer().decode([token]) for token in ids)
    assert halves > 10, "no token in them is a part of a character"


@pytest.mark.parametrize("name", RECORDINGS)
@given(seed=st.integers(0, 2**32))
def test_any_cut_of_a_recorded_stream_is_the_same_response(name: str, seed: int) -> None:
    recording = RECORDINGS[name]
    as_recorded = play(recording, ([message] for message in recording["messages"]))
    ids = list(chain.from_iterable(recording["messages"]))
    recut = play(recording, cut(ids, Random(seed)))
    assert without_boundaries(recut) == without_boundaries(as_recorded)
    assert [event["sequence_number"] for event in recut] == list(range(len(recut)))
    assert fold(recut) == fold(as_recorded) == recut[-1]["response"]


@pytest.mark.parametrize("name", RECORDINGS)
def test_the_whole_stream_at_once_and_id_by_id(name: str) -> None:
    recording = RECORDINGS[name]
    ids = list(chain.from_iterable(recording["messages"]))
    at_once = play(recording, [[ids]])
    one_by_one = play(recording, ([[token]] for token in ids))
    assert without_boundaries(at_once) == without_boundaries(one_by_one)
