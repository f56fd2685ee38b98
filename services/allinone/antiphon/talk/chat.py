"""A conversation in a terminal: reads lines, runs commands, and prints answers while they stream.

/fork [N]     go back by N responses (1); the next message makes a branch there
/tree         show the tree of this conversation
/resume ID    continue any response
/image FILE   send an image with the next message
/model NAME   continue with another model
/new          begin another conversation
/help         show these commands
/exit         leave; so do Ctrl-D, and Ctrl-C at the prompt
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol

from antiphon.talk import tree_text
from antiphon.talk.api import Api, failure_of
from antiphon.talk.conversation import CannotDo, Conversation, require_response_id
from antiphon.talk.errors import ApiError
from antiphon.talk.own_tools import OwnTools
from antiphon_core import events
from antiphon_core.jsons import Object

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

ROUNDS_MAX = 10  # the most requests with results of calls that may follow one message
HELP = (__doc__ or "").partition("\n\n")[2].strip("\n")

_TEXTS = {"response.output_text.delta": "text", "response.refusal.delta": "text"}
_THOUGHTS = {"response.reasoning_text.delta": "thought", "response.reasoning_summary_text.delta": "thought"}
_STYLES = {**_TEXTS, **_THOUGHTS}
_ENDS = (events.COMPLETED, events.INCOMPLETE, events.FAILED)


class Screen(Protocol):
    """The terminal. Styles: text, thought, note, error."""

    def write(self, text: str, style: str = "text") -> None: ...

    def waiting(self) -> AbstractContextManager[Callable[[], None]]:
        """Shows that an answer is awaited, until the callback is called or the context ends."""


class Chat:
    """One conversation, its tools, and the commands."""

    def __init__(self, server: Api, screen: Screen, conversation: Conversation, tools: OwnTools) -> None:
        self._server = server
        self._screen = screen
        self._tools = tools
        self.conversation = conversation
        self.failures = 0
        """The number of lines that ended in an error."""
        self._commands: dict[str, Callable[[str], Awaitable[None]]] = {
            "/fork": self._fork, "/tree": self._tree, "/resume": self._resume, "/image": self._image,
            "/model": self._model, "/new": self._new, "/help": self._help,
        }  # fmt: skip

    async def take(self, line: str) -> bool:
        """Runs a line: a command, or a message to the model. Returns False at the end of the conversation. An error is
        shown, and does not end the conversation."""
        line = line.strip()
        try:
            if line in ("/exit", "/quit"):
                return False
            if line.startswith("/"):
                await self._command(line)
            elif line:
                await self._answer(line)
        except (ApiError, CannotDo) as error:
            self.failures += 1
            self._screen.write(f"{error}\n", "error")
        return True

    async def _command(self, line: str) -> None:
        name, _, rest = line.partition(" ")
        command = self._commands.get(name)
        if command is None:
            raise CannotDo(f"There is no command {name}. /help shows the commands.")
        await command(rest.strip())

    async def _answer(self, text: str) -> None:
        """Sends a message, and then the results of the model's calls until the model answers without calls."""
        body = self.conversation.say(text)
        for _ in range(ROUNDS_MAX):
            calls = self.conversation.take(await self._stream(body))
            if not calls:
                return
            body = self.conversation.request([self._result(call) for call in calls])
        self._screen.write(f"The model called tools {ROUNDS_MAX} times without an answer.\n", "error")

    def _result(self, call: Object) -> Object:
        self._screen.write(f"{call['name']}({call['arguments']})\n", "note")
        output = self._tools.call(call["name"], call["arguments"])
        self._screen.write(f"→ {tree_text.shorten(output)}\n", "note")
        return {"type": "function_call_output", "call_id": call["call_id"], "output": output}

    async def _stream(self, body: Object) -> Object:
        """Prints a response while it streams, and returns it. ApiError: the response failed."""
        former = "text"
        with self._screen.waiting() as stop_waiting:
            async for event in self._server.events(body):
                style = _STYLES.get(event["type"])
                if style is not None:
                    stop_waiting()
                    self._screen.write(("\n" if style != former else "") + event["delta"], style)
                    former = style
                elif event["type"] in _ENDS:
                    stop_waiting()
                    self._screen.write("\n")
                    return self._end_answer(event["response"])
        raise ApiError("The stream ended without an end of the response.")

    def _end_answer(self, response: Object) -> Object:
        if response["status"] == "failed":
            raise ApiError(failure_of(response))
        if response["status"] == "incomplete":
            self._screen.write(f"(cut off: {response['incomplete_details']['reason']})\n", "note")
        return response

    # ---- Commands ----

    async def _fork(self, rest: str) -> None:
        if rest and not rest.isdecimal():
            raise CannotDo("Say by how many responses to go back: /fork 2")
        head = self.conversation.fork(int(rest or "1"))
        self._screen.write(f"The next message goes on behind {head or 'nothing'}.\n", "note")

    async def _tree(self, _rest: str) -> None:
        head = self.conversation.head
        if head is None:
            raise CannotDo("Nothing has been answered yet.")
        nodes = await self._server.nodes(head, from_root=True)
        self._screen.write("\n".join(tree_text.lines(nodes, marked=head)) + "\n", "note")

    async def _resume(self, rest: str) -> None:
        require_response_id(rest)
        response = await self._server.get(f"/responses/{rest}")
        self.conversation.resume(rest)
        self.conversation.note_calls(response)
        self._screen.write(f"{tree_text.output_text(response)}\n")

    async def _image(self, rest: str) -> None:
        await asyncio.to_thread(self.conversation.attach, rest)

    async def _model(self, rest: str) -> None:
        names = await self._server.models()
        if rest not in names:
            raise CannotDo(f"Models here: {', '.join(names)}.")
        self.conversation.model = rest

    async def _new(self, _rest: str) -> None:
        self.conversation.heads.clear()

    async def _help(self, _rest: str) -> None:
        self._screen.write(f"{HELP}\n", "note")
