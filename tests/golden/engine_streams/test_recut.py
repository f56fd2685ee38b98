"""Recorded streams of a real engine make equal responses however they are cut.

The recordings are made by record.py. The cuts are random.
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
    """The events of a recording that arrives in these batches of messages."""
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
    """A log with adjacent deltas joined and without sequence numbers, because both depend on the cut."""
    plain: list[Object] = []
    for event in log:
        bare = {name: value for name, value in event.items() if name != "sequence_number"}
        if plain and "delta" in bare and "delta" in plain[-1]:
            plain[-1]["delta"] += bare["delta"]
        else:
            plain.append(bare)
    return plain


def test_recordings_contain_split_characters() -> None:
    ids = list(chain.from_iterable(RECORDINGS["scripts"]["messages"] + RECORDINGS["half"]["messages"]))
    halves = sum("\ufffd" in tokenizer().decode([token]) for token in ids)
    assert halves > 10, "the recordings contain too few parts of characters"


@pytest.mark.parametrize("name", RECORDINGS)
@given(seed=st.integers(0, 2**32))
def test_any_cut_of_a_recorded_stream_makes_an_equal_response(name: str, seed: int) -> None:
    recording = RECORDINGS[name]
    as_recorded = play(recording, ([message] for message in recording["messages"]))
    ids = list(chain.from_iterable(recording["messages"]))
    recut = play(recording, cut(ids, Random(seed)))
    assert without_boundaries(recut) == without_boundaries(as_recorded)
    assert [event["sequence_number"] for event in recut] == list(range(len(recut)))
    assert fold(recut) == fold(as_recorded) == recut[-1]["response"]


@pytest.mark.parametrize("name", RECORDINGS)
def test_whole_stream_at_once_and_id_by_id_make_equal_responses(name: str) -> None:
    recording = RECORDINGS[name]
    ids = list(chain.from_iterable(recording["messages"]))
    at_once = play(recording, [[ids]])
    one_by_one = play(recording, ([[token]] for token in ids))
    assert without_boundaries(at_once) == without_boundaries(one_by_one)
