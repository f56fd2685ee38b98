"""The schemas of chat completions match the answers; tests of chat/ check real answers against them."""

from __future__ import annotations

import pytest

from antiphon_core.jsons import Object
from tests.support.document import require

CHUNK: Object = {
    "id": "chatcmpl-1",
    "object": "chat.completion.chunk",
    "created": 1,
    "model": "m",
    "service_tier": "default",
    "choices": [{"index": 0, "delta": {"content": "a"}, "logprobs": None, "finish_reason": None}],
}


def test_schema_of_streamed_data_accepts_chunks_and_errors() -> None:
    require("ChatStreamed", CHUNK)
    require("ChatStreamed", {"error": {"message": "m", "type": "server_error", "param": None, "code": None}})


@pytest.mark.parametrize(
    "wrong",
    [
        {"object": "chat.completion"},
        {"choices": [{"index": 0, "delta": {"content": None}, "logprobs": None, "finish_reason": None}]},
        {"choices": [{"index": 0, "delta": {}, "logprobs": None, "finish_reason": "done"}]},
        {"usage": {"prompt_tokens": 1}},
    ],
)
def test_schema_of_chunks_rejects_invalid_chunks(wrong: Object) -> None:
    with pytest.raises(AssertionError):
        require("ChatChunk", CHUNK | wrong)
