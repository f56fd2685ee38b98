"""The command line: `antiphon COMMAND`, with the commands of the table below.

Only the module of the command that runs is imported, and only its flags are declared. So `antiphon version` starts as
fast as an interpreter, and a store does not load the packages with which `antiphon up` prepares models.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module

from antiphon.mistakes import MISTAKES, explain


@dataclass(frozen=True, slots=True)
class Command:
    """One command. Its `module` has a function `declare`, which adds the command's arguments to a parser and sets the
    default of `run` to a function that takes the parsed arguments and returns the exit status."""

    module: str
    help: str


COMMANDS = {
    "up": Command("up_command", "run everything on this machine, with a real Triton and a small model"),
    "serve": Command("serve_command", "run some targets, in one process or several"),
    "chat": Command("chat_command", "talk to a model in the terminal"),
    "tree": Command("tree_command", "show the tree of a response"),
    "bench": Command("bench_command", "measure time to first token and tokens per second of a server"),
    "doctor": Command("doctor_command", "check settings, reachability, versions and clocks, and say what to do"),
    "store": Command("store_commands", "look after a store's data"),
    "keys": Command("keys_command", "make, list and revoke the API keys of the edge"),
    "parse": Command("parse_command", "parse a model's raw output, and show the items or events"),
    "profile": Command("profile_command", "check a model profile, and the server that it names"),
    "template": Command("template_command", "try a model's chat template, and find its family"),
    "triton-models": Command("triton_models_command", "write a token-level model for Triton, and try it on a Triton"),
    "config": Command("config_command", "print the values of all settings"),
    "version": Command("version_command", "print the version"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns the process's exit status. A mistake of the user is printed as one line, without a
    traceback."""
    if "_ARGCOMPLETE" in os.environ:  # a shell asks for completions (docs/howto/command-line.md)
        import argcomplete

        argcomplete.autocomplete(_parser(list(COMMANDS)))
    given = sys.argv[1:] if arguments is None else arguments
    options = _parser(given[:1]).parse_args(given)
    try:
        return int(options.run(options))
    except MISTAKES as error:
        line, status = explain(error)
        print(f"antiphon: {line}", file=sys.stderr)
        return status


def _parser(wanted: Sequence[str]) -> argparse.ArgumentParser:
    """A parser of all commands, with the arguments of the `wanted` ones only."""
    parser = argparse.ArgumentParser(prog="antiphon", description="A stateful Responses API for NVIDIA Triton.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, command in COMMANDS.items():
        declared = commands.add_parser(name, help=command.help)
        if name in wanted:
            import_module(f"antiphon.{command.module}").declare(declared)
    return parser
