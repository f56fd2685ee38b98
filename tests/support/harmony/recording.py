"""A recording of openai-harmony's answers, so that tests need neither openai-harmony nor its vocabulary."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from antiphon_core.jsons import Object
from tests.support.harmony import oracle
from tests.support.harmony.conversations import CASES, Said
from tests.support.harmony.outputs import MALFORMED, PROMPT, WELL_FORMED
from tests.support.tool_calls.vocabularies import Vocabulary, made_of

FILE = Path(__file__).parents[2] / "golden" / "harmony" / "recorded.json"


@dataclass(frozen=True)
class Recording:
    """The ids of prompts by case, and the ids and the meaning of outputs."""

    prompts: dict[str, str]
    ids: dict[str, list[int]]
    messages: dict[str, list[Said]]
    vocabulary: Vocabulary


def asked() -> Object:
    """Returns the present answers of openai-harmony in the form of the recording."""
    outputs = {each.id: oracle.ids_of(each.text) for each in (*WELL_FORMED, *MALFORMED)}
    used = sorted({token_id for ids in (*outputs.values(), oracle.ids_of(PROMPT)) for token_id in ids})
    names = oracle.control_tokens()
    return {
        "prompts": {case.id: oracle.text_of(oracle.prompt_ids(case)) for case in CASES},
        "outputs": {name: {"ids": ids, "messages": _said(ids)} for name, ids in outputs.items()},
        "pieces": {str(token_id): oracle.pieces()[token_id] for token_id in used if token_id not in names},
        "added": {str(token_id): names[token_id] for token_id in used if token_id in names},
    }


@cache
def recorded() -> Recording:
    kept: Object = json.loads(FILE.read_text("utf-8"))
    vocabulary = made_of(pieces=kept["pieces"], added=kept["added"])
    outputs = kept["outputs"].items()
    return Recording(
        prompts=kept["prompts"],
        ids={name: [vocabulary.number[token_id] for token_id in each["ids"]] for name, each in outputs},
        messages={
            name: [Said("assistant", text, channel, recipient) for channel, recipient, text in each["messages"]]
            for name, each in outputs
            if isinstance(each["messages"], list)
        },
        vocabulary=vocabulary,
    )


def _said(ids: list[int]) -> list[list[str | None]] | str:
    messages = oracle.messages_of(ids)
    return messages if isinstance(messages, str) else [[each.channel, each.recipient, each.text] for each in messages]
