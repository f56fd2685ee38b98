"""`antiphon triton-models`: makes the model repository of a Triton that serves ids, and tries such a Triton.

    antiphon triton-models write DIR --engine tensorrt_llm --model PATH --name NAME
    antiphon triton-models check HOST:PORT --name NAME --tokenizer DIR

`write` needs no engine and no GPU: it writes text files and Python code. docs/howto/triton-token-models.md shows both.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from antiphon_core.config import SettingsError
from antiphon_tokens import arguments, engine, repository, signature
from antiphon_tokens.engine import LoadError
from antiphon_tokens.repository import Model


def declare(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    write = actions.add_parser("write", help="write a token-level model into a model repository of Triton")
    write.add_argument("directory", type=Path, metavar="DIR", help="the model repository of Triton")
    write.add_argument("--engine", required=True, choices=engine.names(), help="what runs the model")
    write.add_argument("--model", required=True, metavar="PATH", help="the model, as Triton's machine sees it")
    write.add_argument("--name", required=True, help="the name of the model on Triton (triton_model of a profile)")
    write.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="'NAME: VALUE'",
        help="an argument, as in model.yaml",
    )
    write.add_argument(
        "--without", default="", metavar="A,B", help=f"features to leave out: {', '.join(signature.FEATURES)}"
    )
    write.set_defaults(run=_write)
    check = actions.add_parser("check", help="load a model of a running Triton, ask it, and say what works")
    check.add_argument("address", metavar="HOST:PORT", help="the gRPC port of Triton")
    check.add_argument("--name", required=True, help="the name of the model on Triton")
    check.add_argument(
        "--tokenizer", required=True, type=Path, metavar="DIR", help="the folder with its tokenizer.json"
    )
    check.set_defaults(run=_check)


def _write(options: argparse.Namespace) -> int:
    """Writes a model. SettingsError: an argument or a feature is not what it must be."""
    try:
        given = dict(arguments.parse_line(each, "--set") for each in options.set)
        defaults = engine.module(options.engine).ARGUMENTS
        without = frozenset(name for name in options.without.split(",") if name)
        model = Model(options.name, options.engine, {"model": options.model, **defaults, **given}, without)
        folder = repository.write(options.directory, model)
    except LoadError as error:
        raise SettingsError(str(error)) from error
    print(f"{folder / repository.CONFIG_FILE}: {', '.join(sorted(model.features))}")
    print(f"{folder / repository.VERSION / arguments.FILE}: the arguments of {options.engine}")
    return 0


def _check(options: argparse.Namespace) -> int:
    """Prints what works. Returns 1 if something does not."""
    from antiphon.triton_models_check import findings

    works = True
    for name, finding, is_well in asyncio.run(findings(options.address, options.name, options.tokenizer)):
        print(f"{name + ':':<16}{finding}")
        works = works and is_well
    return 0 if works else 1
