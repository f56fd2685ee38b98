from __future__ import annotations

from dataclasses import fields

from antiphon_translator.engines.scripted import ALL_CONTROLS
from antiphon_translator.engines.triton_tokens import CONTROL_INPUTS
from antiphon_translator.generation import Sampling
from antiphon_translator.turn import sampling


def test_every_sampling_member_is_set_and_mapped_for_each_engine() -> None:
    members = {member.name for member in fields(Sampling)}
    chosen, _ = sampling.choose(
        asked={"presence_penalty": 1, "frequency_penalty": 1},
        defaults={"top_k": 5, "repetition_penalty": 1.1, "min_p": 0.1},
        controls=frozenset(members),
        seed=7,
    )
    assert all(getattr(chosen, name) is not None for name in members)
    assert set(CONTROL_INPUTS) == set(ALL_CONTROLS) == members
