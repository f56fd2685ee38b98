"""The state of a terminal conversation: the response that it continues, and the requests for its next turns."""

from __future__ import annotations

import base64
import mimetypes
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from antiphon_core.jsons import Object

IMAGE_BYTES_MAX = 5 * 2**20
BACK_TO_START = ""
NOT_RUN = "The conversation went on before the result of this call was known."


class CannotDo(Exception):
    """A command cannot be done now. The message is a sentence for the user."""


def require_response_id(given: str) -> None:
    """Raises CannotDo if this is not the id of a response."""
    if not given.startswith("resp_"):
        raise CannotDo("Name a response: /resume resp_...")


@dataclass(slots=True)
class Conversation:
    """A terminal conversation. `heads` are the responses of its branch, oldest first; the next request continues the
    last one."""

    model: str
    instructions: str | None = None
    options: Object = field(default_factory=dict)
    tools: list[Object] = field(default_factory=list)
    heads: list[str] = field(default_factory=list)
    images: list[str] = field(default_factory=list)
    """Images that go with the next message, as data URLs."""
    calls: dict[str, list[Object]] = field(default_factory=dict)
    """The function calls in the responses that were received, by the response's id."""

    @property
    def head(self) -> str | None:
        return self.heads[-1] if self.heads else None

    def say(self, text: str) -> Object:
        """The request that sends a message, with the images that were attached for it. If the head ended in calls, it
        brings an output for each: without outputs, servers reject the request."""
        parts: list[Object] = [{"type": "input_text", "text": text}]
        parts += [{"type": "input_image", "image_url": url} for url in self.images]
        self.images.clear()
        skipped = [
            {"type": "function_call_output", "call_id": call["call_id"], "output": NOT_RUN}
            for call in self.calls.get(self.head or "", ())
        ]
        return self.request([*skipped, {"role": "user", "content": parts if len(parts) > 1 else text}])

    def request(self, items: list[Object]) -> Object:
        """A request that continues the conversation with these items."""
        body: dict[str, Any] = {"model": self.model, "input": items, **self.options}
        if self.head is not None:
            body["previous_response_id"] = self.head
        if self.instructions:
            body["instructions"] = self.instructions
        if self.tools:
            body["tools"] = self.tools
        return body

    def take(self, response: Object) -> list[Object]:
        """Makes a response that has ended the head, and returns the function calls in it."""
        self.heads.append(response["id"])
        return self.note_calls(response)

    def note_calls(self, response: Object) -> list[Object]:
        """Keeps the function calls in a response, and returns them."""
        found = [item for item in response.get("output", []) if item.get("type") == "function_call"]
        self.calls[response["id"]] = found
        return found

    def fork(self, turns: int) -> str:
        """Goes back by `turns` responses, where the next message makes a branch. Returns the response that it will
        continue; BACK_TO_START if there is none."""
        if not 1 <= turns <= len(self.heads):
            raise CannotDo(f"There are {len(self.heads)} responses to go back by.")
        del self.heads[-turns:]
        return self.head or BACK_TO_START

    def resume(self, response_id: str) -> None:
        """Makes any response the head, also one of another conversation."""
        require_response_id(response_id)
        self.heads = [response_id]

    def attach(self, file: str) -> None:
        """Adds an image to the next message."""
        path = Path(file).expanduser()
        media_type = mimetypes.guess_type(path.name)[0] or ""
        if not media_type.startswith("image/"):
            raise CannotDo(f"{path} has no name of an image.")
        try:
            content = path.read_bytes()
        except OSError as error:
            raise CannotDo(f"{path}: {error.strerror or error}") from error
        if len(content) > IMAGE_BYTES_MAX:
            raise CannotDo(f"{path} is larger than {IMAGE_BYTES_MAX // 2**20} MiB.")
        self.images.append(f"data:{media_type};base64,{base64.b64encode(content).decode()}")
