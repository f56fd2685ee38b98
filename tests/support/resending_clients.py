"""The requests of Codex, Open WebUI and LibreChat, which keep chats themselves and resend the whole chat every turn.

The shapes follow their public code (open-webui: backend/open_webui/routers/openai.py and utils/middleware.py;
LibreChat: packages/api/src/endpoints/openai/llm.ts, and src/llm/openai of its package `agents`; codex:
codex-rs/core/src/client.rs), rewritten here. None of them sends `previous_response_id`, and only Codex sends `store`.
Open WebUI and LibreChat keep a chat in two parts: the messages that the user sees, and in each answer the items or
messages of its calls.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from antiphon_core import events
from antiphon_core.jsons import Object
from tests.support.http import Answer, Http

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
NAME, DESCRIPTION, RESULT = "get_weather", "The weather in a city.", "sunny"
OF_CHAT = {"type": "function", "function": {"name": NAME, "description": DESCRIPTION, "parameters": CITY}}


SENT_BY_OPEN_WEBUI = {
    "message": ("type", "role", "content"),
    "function_call": ("type", "call_id", "name", "arguments", "id"),
    "function_call_output": ("type", "call_id", "output"),
}


@dataclass
class Turn:
    """A message of the user, and the model's answer: items, or messages of chat completions."""

    said: Any
    written: list[Object]


class Client(Protocol):
    @property
    def path(self) -> str: ...

    def request(self, model: str, turns: Sequence[Turn]) -> Object:
        """Returns the body of the next request."""

    def written(self, answer: Answer) -> list[Object]:
        """Returns the items or messages of a streamed answer that the client keeps."""

    def call_id(self, written: Sequence[Object]) -> str | None:
        """Returns the id of the call that must be run next."""

    def result(self, call_id: str) -> Object:
        """Returns the item or message that the client adds after the tool has run."""


def _completed(answer: Answer) -> Object:
    assert answer.status == 200, answer.body
    last = answer.events[-1]
    assert last["type"] == events.COMPLETED, last
    response: Object = last["response"]
    return response


def _open_call(written: Sequence[Object]) -> str | None:
    calls = [str(item["call_id"]) for item in written if item["type"] == "function_call"]
    ran = {item["call_id"] for item in written if item["type"] == "function_call_output"}
    return next((call_id for call_id in calls if call_id not in ran), None)


def _parts(said: Any) -> list[Object]:
    if isinstance(said, str):
        return [{"type": "input_text", "text": said}]
    return [
        {"type": "input_image", "image_url": part["image_url"]["url"]}
        if part["type"] == "image_url"
        else {"type": "input_text", "text": part["text"]}
        for part in said
    ]


class OpenWebUI:
    """A connection of the API type "Responses". Items of known types are reduced to the members that Open WebUI sends;
    others are sent with all of Open WebUI's own notes."""

    path = "/v1/responses"

    def request(self, model: str, turns: Sequence[Turn]) -> Object:
        items: list[Object] = []
        for turn in turns:
            items.append({"type": "message", "role": "user", "content": _parts(turn.said)})
            items += [self._sent(item) for item in turn.written]
        tool = {"type": "function", "name": NAME, "description": DESCRIPTION, "parameters": CITY}
        fixed: Object = {"stream": True, "temperature": 0.7, "max_output_tokens": 2_048, "tools": [tool]}
        return {"model": model, "input": items, "instructions": "User Context:\n\nBe brief."} | fixed

    def written(self, answer: Answer) -> list[Object]:
        """Returns the items of an answer. Thoughts get their times, and code that Open WebUI ran itself becomes its own
        item."""
        kept: list[Object] = []
        for item in _completed(answer)["output"]:
            noted = {"started_at": 1_763_800_000.5, "ended_at": 1_763_800_002.5, "duration": 2}
            kept.append(item | noted if item["type"] == "reasoning" else item)
        ran = {
            "type": "open_webui:code_interpreter",
            "id": "ci_1",
            "lang": "python",
            "code": "1",
            "status": "completed",
        }
        return kept if _open_call(kept) else [*kept, ran | {"output": {"stdout": "1"}, "duration": 0.1}]

    def call_id(self, written: Sequence[Object]) -> str | None:
        return _open_call(written)

    def result(self, call_id: str) -> Object:
        output = [{"type": "input_text", "text": RESULT}]
        noted = {"id": "fco_1", "status": "completed", "files": [], "embeds": []}
        return {"type": "function_call_output", "call_id": call_id, "output": output} | noted

    def _sent(self, item: Object) -> Object:
        names = SENT_BY_OPEN_WEBUI.get(item["type"])
        return item if names is None else {name: item[name] for name in names if name in item}


class LibreChat:
    """An endpoint with `useResponsesApi`. While a tool runs, an answer is resent unchanged; later it is rebuilt from
    LibreChat's stored texts and calls, without their ids."""

    path = "/v1/responses"

    def request(self, model: str, turns: Sequence[Turn]) -> Object:
        items: list[Object] = [{"type": "message", "role": "system", "content": "Be brief."}]
        for number, turn in enumerate(turns, 1):
            items.append({"type": "message", "role": "user", "content": self._content(turn.said)})
            items += turn.written if number == len(turns) else self._stored(turn.written)
        tool = {"type": "function", "name": NAME, "description": DESCRIPTION, "parameters": CITY, "strict": None}
        fixed: Object = {"stream": True, "temperature": 1, "top_p": 1, "user": "6650f0c2a1b2c3d4e5f60718"}
        asked: Object = {"reasoning": {"effort": "medium", "summary": "auto"}, "text": {"verbosity": "medium"}}
        return {"model": model, "input": items, "tools": [tool], "parallel_tool_calls": True} | fixed | asked

    def written(self, answer: Answer) -> list[Object]:
        return list(_completed(answer)["output"])

    def call_id(self, written: Sequence[Object]) -> str | None:
        return _open_call(written)

    def result(self, call_id: str) -> Object:
        return {"type": "function_call_output", "call_id": call_id, "output": RESULT}

    @staticmethod
    def _content(said: Any) -> Any:
        if isinstance(said, str):
            return said
        return [
            {"type": "input_image", "image_url": part["image_url"]["url"], "detail": "auto"}
            if part["type"] == "image_url"
            else {"type": "input_text", "text": part["text"]}
            for part in said
        ]

    @staticmethod
    def _stored(written: Sequence[Object]) -> list[Object]:
        sent: list[Object] = []
        for item in written:
            if item["type"] == "message":
                parts = [{"type": "output_text", "text": part["text"], "annotations": []} for part in item["content"]]
                sent.append({"type": "message", "role": "assistant", "content": parts})
            elif item["type"] == "function_call":
                sent.append({"type": "message", "role": "assistant", "content": ""})
                sent.append({name: item[name] for name in ("type", "name", "arguments", "call_id")})
            elif item["type"] == "function_call_output":
                sent.append(item)
        return sent


class Codex:
    """Codex, which stores nothing: it resends each item as it was streamed, without ids and with sealed reasoning."""

    path = "/v1/responses"

    def request(self, model: str, turns: Sequence[Turn]) -> Object:
        items: list[Object] = [
            self._message("developer", "input_text", "Filesystem sandboxing is read-only."),
            self._message("user", "input_text", "<environment_context><cwd>/work</cwd></environment_context>"),
        ]
        for turn in turns:
            items += [{"type": "message", "role": "user", "content": _parts(turn.said)}, *turn.written]
        tool = {"type": "function", "name": NAME, "description": DESCRIPTION, "strict": False, "parameters": CITY}
        fixed: Object = {"store": False, "stream": True, "include": ["reasoning.encrypted_content"]}
        asked: Object = {"reasoning": {"effort": "medium", "summary": "auto"}, "prompt_cache_key": "0199-thread"}
        called: Object = {"tools": [tool], "tool_choice": "auto", "parallel_tool_calls": False}
        return {"model": model, "instructions": "You are a coding agent.", "input": items} | fixed | asked | called

    def written(self, answer: Answer) -> list[Object]:
        _completed(answer)
        done = [event["item"] for event in answer.events if event["type"] == events.OUTPUT_ITEM_DONE]
        return [self._kept(item) for item in done]

    def call_id(self, written: Sequence[Object]) -> str | None:
        return _open_call(written)

    def result(self, call_id: str) -> Object:
        return {"type": "function_call_output", "call_id": call_id, "output": RESULT}

    def _kept(self, item: Object) -> Object:
        match item["type"]:
            case "reasoning":
                assert item["encrypted_content"]
                sealed = item["encrypted_content"]
                return {"type": "reasoning", "summary": item["summary"], "content": None, "encrypted_content": sealed}
            case "function_call":
                return {name: item[name] for name in ("type", "name", "arguments", "call_id")}
            case _:
                return self._message("assistant", "output_text", "".join(part["text"] for part in item["content"]))

    @staticmethod
    def _message(role: str, part: str, text: str) -> Object:
        return {"type": "message", "role": role, "content": [{"type": part, "text": text}]}


@dataclass(frozen=True)
class ChatShape:
    """Chat completions, the default API of both clients. `fixed` is in each request."""

    fixed: Callable[[], Object]
    path: str = "/v1/chat/completions"

    def request(self, model: str, turns: Sequence[Turn]) -> Object:
        messages: list[Object] = [{"role": "system", "content": "Be brief."}]
        for turn in turns:
            messages += [{"role": "user", "content": turn.said}, *turn.written]
        return {"model": model, "messages": messages, "stream": True, "tools": [OF_CHAT]} | self.fixed()

    def written(self, answer: Answer) -> list[Object]:
        assert answer.status == 200, answer.body
        lines = [line.removeprefix("data: ") for line in answer.body.decode().splitlines() if line.startswith("data: ")]
        assert lines[-1] == "[DONE]"
        deltas = [choice["delta"] for line in lines[:-1] for choice in json.loads(line)["choices"]]
        text = "".join(delta.get("content") or "" for delta in deltas)
        pieces = [piece for delta in deltas for piece in delta.get("tool_calls") or []]
        calls = [
            {
                "id": first["id"],
                "type": "function",
                "function": {
                    "name": first["function"]["name"],
                    "arguments": "".join(
                        each["function"].get("arguments", "") for each in pieces if each["index"] == first["index"]
                    ),
                },
            }
            for first in pieces
            if first.get("id")
        ]
        return [{"role": "assistant", "content": text} | ({"tool_calls": calls} if calls else {})]

    def call_id(self, written: Sequence[Object]) -> str | None:
        calls = written[-1].get("tool_calls")
        return str(calls[0]["id"]) if calls else None

    def result(self, call_id: str) -> Object:
        return {"role": "tool", "tool_call_id": call_id, "content": RESULT}


CLIENTS: dict[str, Client] = {
    "Open WebUI": OpenWebUI(),
    "LibreChat": LibreChat(),
    "Codex": Codex(),
    "Open WebUI, chat completions": ChatShape(lambda: {"stream_options": {"include_usage": True}, "max_tokens": 2_048}),
    "LibreChat, chat completions": ChatShape(
        lambda: {
            "temperature": 1, "top_p": 1, "presence_penalty": 0, "frequency_penalty": 0, "n": 1,
            "user": "6650f0c2a1b2c3d4e5f60718", "stream_options": {"include_usage": True},
        }
    ),
}  # fmt: skip


async def ask(http: Http, client: Client, model: str, turns: list[Turn], said: Any) -> str:
    """Plays one turn of a chat, its calls included, and returns the text of the answer."""
    turns.append(turn := Turn(said, []))
    while True:
        turn.written += client.written(await http.post(client.path, client.request(model, turns)))
        call_id = client.call_id(turn.written)
        if call_id is None:
            return text_of(turn.written)
        turn.written.append(client.result(call_id))


def text_of(written: Sequence[Object]) -> str:
    """Returns the text of the last message among items or messages of chat completions."""
    content = [item["content"] for item in written if item.get("role") == "assistant"][-1]
    return content if isinstance(content, str) else "".join(part["text"] for part in content)
