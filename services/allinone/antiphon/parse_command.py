"""`antiphon parse`: parses a model's raw output as the translator does, without a server.

Standard input has the chunks as a JSON array: texts or, with --tokenizer, lists of token ids. They go through the
translator's parser, assembly and response machine. The output items are printed or, with --events, the events.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from antiphon_core import response
from antiphon_core.config import SettingsError
from antiphon_core.errors import InvalidRequest
from antiphon_core.ids import SequentialIds
from antiphon_core.jsons import Object, dumps, loads
from antiphon_core.ports.translator import Usage
from antiphon_core.request.body import Parameters
from antiphon_translator.output.assembly import Assembly
from antiphon_translator.output.machine import Begin, Complete, Incomplete, ResponseMachine
from antiphon_translator.output.token_output import TokenParser
from antiphon_translator.parsing import families
from antiphon_translator.parsing.family import Family
from antiphon_translator.parsing.parser import OutputParser
from antiphon_translator.parsing.segments import Segment
from antiphon_translator.parsing.token_syntax import TokenSyntax
from antiphon_translator.prompt import declarations, tools
from antiphon_translator.prompt.tools import ToolSet
from antiphon_translator.tokenizer.tokens import ModelTokenizer

NOTHING_COUNTED = Usage(0, 0)


class _Parser(Protocol):
    def feed(self, chunk: Any, /) -> list[Segment]: ...

    def finish(self, *, cut_off: bool) -> list[Segment]: ...


def declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--family", required=True, help="how the model writes reasoning and calls")
    parser.add_argument(
        "--prompt-tail", default="", help="the end of the prompt, where the template may begin the answer"
    )
    parser.add_argument("--tools", type=Path, help="a JSON file with the tools of the request")
    parser.add_argument("--tool-choice", help="the tool_choice of the request, as JSON")
    parser.add_argument("--finish", choices=["stop", "length"], default="stop", help="why the model ended")
    parser.add_argument("--tokenizer", type=Path, metavar="DIR", help="a folder with tokenizer.json, for token ids")
    parser.add_argument("--events", action="store_true", help="print the events instead of the items")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Parses standard input and prints the result. SettingsError: an argument or the input is wrong."""
    offered = _tools(options.tools, options.tool_choice)
    chunks = _json(sys.stdin.buffer.read(), "standard input")
    if not isinstance(chunks, list):
        raise SettingsError("Standard input must be a JSON array of chunks.")
    for line in parse_lines(options, offered, chunks):
        print(line)
    return 0


def parse_lines(options: argparse.Namespace, offered: ToolSet, chunks: Sequence[Any]) -> Iterator[str]:
    """The lines to print."""
    ids = SequentialIds()
    machine = ResponseMachine(response.skeleton({"model": "model"}, response_id="resp_1", created_at=0), ids)
    machine.send(Begin())
    assembly = Assembly(machine, offered, ids, family=options.family)
    parser = _parser(options, offered)
    for number, chunk in enumerate(chunks):
        assembly.take(parser.feed(_check_chunk(chunk, number, of_ids=options.tokenizer is not None)))
    cut_off = options.finish == "length"
    assembly.take(parser.finish(cut_off=cut_off))
    assembly.close("incomplete" if cut_off else "completed")
    end = Incomplete(NOTHING_COUNTED, "max_output_tokens") if cut_off else Complete(NOTHING_COUNTED, 0)
    machine.send(end)
    if options.events:
        yield from (batch.frames.decode().rstrip("\n") + "\n" for batch in machine.take())
    else:
        yield dumps(machine.snapshot()["output"]).decode()


def _parser(options: argparse.Namespace, offered: ToolSet) -> _Parser:
    family = _family(options.family)
    if options.tokenizer is None:
        return OutputParser(family, schemas=offered.schemas, prompt_tail=options.prompt_tail)
    try:
        tokenizer = ModelTokenizer.load(options.tokenizer / "tokenizer.json")
    except ValueError as error:
        raise SettingsError(str(error)) from error
    prompt_ids = tokenizer.encode(options.prompt_tail)
    return TokenParser(TokenSyntax(family, tokenizer), prompt_ids=prompt_ids, schemas=offered.schemas)


def _family(name: str) -> Family:
    try:
        return families.load(name)
    except KeyError as error:
        raise SettingsError(f"There is no family '{name}'; there is {', '.join(families.names())}.") from error


def _check_chunk(chunk: Any, number: int, *, of_ids: bool) -> Any:
    is_ids = isinstance(chunk, list) and all(isinstance(each, int) for each in chunk)
    if of_ids and not is_ids:
        raise SettingsError(f"Chunk {number} must be a list of token ids, as a tokenizer is named.")
    if not of_ids and not isinstance(chunk, str):
        raise SettingsError(f"Chunk {number} must be a text; for token ids name a tokenizer.")
    return chunk


def _tools(path: Path | None, choice: str | None) -> ToolSet:
    request: Object = {"model": "model"}
    if path is not None:
        request["tools"] = _json(path.read_bytes(), str(path))
    if choice is not None:
        request["tool_choice"] = _json(choice.encode(), "--tool-choice")
    try:
        parameters = Parameters.parse(dumps(request))
        return tools.offered_tools(declarations.at("tools", parameters.tools or ()), parameters.tool_choice)
    except InvalidRequest as error:
        raise SettingsError(error.message) from error


def _json(text: bytes, where: str) -> Any:
    try:
        return loads(text)
    except ValueError as error:
        raise SettingsError(f"{where} is not JSON: {error}.") from error
