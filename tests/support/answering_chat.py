"""A fake server of chat completions with the behaviour of vLLM and NIM. It answers the questions of client_plays.py.

A model that is not listed is answered with 404. A stream begins with the role, and the usage comes in its own chunk, if
requested.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from antiphon_core.jsons import Object
from tests.support.client_plays import GREETING, PLAYS
from tests.support.fake_chat import FakeChat, Rejection, delta, event, fake_chat

MODEL = "meta-llama/Llama-3.1-8B-Instruct"
DONE = b"data: [DONE]\n\n"


def answering_chat() -> AbstractAsyncContextManager[FakeChat]:
    """Runs the server on a free port of this machine. The model's name has the form of Hugging Face."""
    return fake_chat(model=MODEL, context_length=8_192, answer=_script)


def _script(asked: Object) -> list[bytes]:
    if asked["model"] != MODEL:
        told = {"message": f"The model `{asked['model']}` does not exist.", "type": "NotFoundError", "code": 404}
        raise Rejection(404, {"object": "error"} | told)
    words = _answer(asked).split(" ")
    deltas = [delta(content=word if number == 0 else f" {word}") for number, word in enumerate(words)]
    usage = {"prompt_tokens": 40, "completion_tokens": len(words), "total_tokens": 40 + len(words)}
    is_counted = (asked.get("stream_options") or {}).get("include_usage")
    counted = [event({"choices": [], "usage": usage})] if is_counted else []
    ended = event({"choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "stop"}]})
    return [delta(role="assistant", content=""), *deltas, ended, *counted, DONE]


def _answer(asked: Object) -> str:
    """Returns the answer to the last message. The second question can be answered only with the first one in the
    prompt."""
    texts = [message["content"] for message in asked["messages"]]
    is_known = len(texts) == 1 or PLAYS.get(texts[0]) is not None
    (said,) = PLAYS.get(texts[-1], [GREETING]) if is_known else [GREETING]
    return str(said)
