"""The command line: `antiphon up | serve | store | keys | parse | profile | template | config | version`.

Only the module of the command that runs is imported, and only its flags are declared: `antiphon version` costs no more
than an interpreter, and a store does not load what `antiphon up` makes models with.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module

from antiphon.mistakes import MISTAKES, explain


@dataclass(frozen=True, slots=True)
class Command:
    """`module` has a function `declare`, which gives a parser the command's arguments and, as the default of `run`, a
    function from the parsed arguments to the exit status."""

    module: str
    help: str


COMMANDS = {
    "up": Command("up_command", "run everything on this machine, with a real Triton and a small model"),
    "serve": Command("serve_command", "run some targets, in one process or several"),
    "store": Command("store_commands", "look after a store's data"),
    "keys": Command("keys_command", "make, list and revoke the API keys of the edge"),
    "parse": Command("parse_command", "show what is made of a model's raw output"),
    "profile": Command("profile_command", "check a model profile, and the server that it names"),
    "template": Command("template_command", "show how a model writes, and which family reads it"),
    "config": Command("config_command", "print all settings as they are now"),
    "version": Command("version_command", "print the version"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; the process's exit status. Mistakes of the user are one line, not a traceback."""
    given = sys.argv[1:] if arguments is None else arguments
    options = _parser(given[:1]).parse_args(given)
    try:
        return int(options.run(options))
    except MISTAKES as error:
        line, status = explain(error)
        print(f"antiphon: {line}", file=sys.stderr)
        return status


def _parser(wanted: Sequence[str]) -> argparse.ArgumentParser:
    """A parser that knows all commands by name, and the arguments of the `wanted` ones."""
    parser = argparse.ArgumentParser(prog="antiphon", description="A stateful Responses API for NVIDIA Triton.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, command in COMMANDS.items():
        declared = commands.add_parser(name, help=command.help)
        if name in wanted:
            import_module(f"antiphon.{command.module}").declare(declared)
    return parser
