"""The command line: `antiphon up | serve | store | keys | parse | config | version`.

What a command needs is imported when it runs: starting a store does not load what `antiphon up` makes models with.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path

from antiphon import banner, keys_command, settings
from antiphon.local.errors import LocalModelError
from antiphon.settings import SECTIONS, Settings
from antiphon.targets import GROUPS, TARGETS, Process, build, expand
from antiphon_core import config, lifecycle, logs
from antiphon_core.clock import SystemClock
from antiphon_core.errors import StoreUnavailable

Flags = dict[str, str]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; the process's exit status. Mistakes of the user are one line, not a traceback."""
    options = _parser().parse_args(arguments)
    flags = {flag: value for flag, value in _settings_flags(options).items() if value is not None}
    try:
        return int(options.run(options, flags))
    except (config.SettingsError, LocalModelError) as error:
        print(f"antiphon: {error}", file=sys.stderr)
        return 2
    except StoreUnavailable as error:
        print(f"antiphon: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"antiphon: {error.strerror or error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="antiphon", description="A stateful Responses API for NVIDIA Triton.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    run_up = commands.add_parser("up", help="run everything on this machine, with a real Triton and a small model")
    run_up.add_argument("--port", help="HTTP port; 0 lets the system choose (default 8000)")
    run_up.add_argument("--data", type=Path, help="where everything is kept")
    run_up.add_argument("--gguf", type=Path, help="serve this GGUF file instead of the toy model")
    run_up.add_argument("--triton", metavar="HOST:PORT", help="use your own Triton (needs --model-dir)")
    run_up.add_argument("--model-dir", type=Path, help="tokenizer and template of the model that your Triton serves")
    run_up.add_argument("--model-name", help="what requests call the model")
    run_up.add_argument("--triton-model", help="the model's name in your Triton (default tensorrt_llm)")
    run_up.add_argument("--profiles", type=Path, metavar="DIR", help="serve the models of your own model profiles")
    _add_settings(run_up)
    run_up.set_defaults(run=_up)

    serve = commands.add_parser("serve", help="run some targets in this process")
    serve.add_argument("--target", default="all", help=f"any of {', '.join([*TARGETS, *GROUPS])}, comma-separated")
    _add_settings(serve)
    serve.set_defaults(run=_serve)

    store = commands.add_parser("store", help="look after a store's data").add_subparsers(required=True, metavar="WHAT")
    migrate = store.add_parser("migrate", help="bring the database's schema to this release's version")
    _add_settings(migrate)
    migrate.set_defaults(run=_migrate_store)

    keys = commands.add_parser("keys", help="make, list and revoke the API keys of the edge")
    keys_command.add_commands(keys, _add_settings)
    keys.set_defaults(run=_keys)

    parse = commands.add_parser("parse", help="show what is made of a model's raw output")
    _add_parse_arguments(parse)
    parse.set_defaults(run=_parse)

    show = commands.add_parser("config", help="print all settings as they are now")
    show.add_argument("--markdown", action="store_true", help="print the reference page instead")
    _add_settings(show)
    show.set_defaults(run=_config)

    commands.add_parser("version", help="print the version").set_defaults(run=_version)
    return parser


def _add_settings(command: argparse.ArgumentParser) -> None:
    """A flag for every declared setting."""
    command.add_argument("--config", type=Path, help="a TOML file with settings")
    group = command.add_argument_group("settings")
    for setting in config.declared(SECTIONS):
        group.add_argument(setting.flag, metavar="VALUE", help=setting.doc.replace("%", "%%"))


def _add_parse_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("--family", required=True, help="how the model writes reasoning and calls")
    command.add_argument("--prompt-tail", default="", help="the end of the prompt: what the template began")
    command.add_argument("--tools", type=Path, help="a JSON file with the tools of the request")
    command.add_argument("--tool-choice", help="the tool_choice of the request, as JSON")
    command.add_argument("--finish", choices=["stop", "length"], default="stop", help="why the model ended")
    command.add_argument("--tokenizer", type=Path, metavar="DIR", help="a folder with tokenizer.json, for token ids")
    command.add_argument("--events", action="store_true", help="print the events instead of the items")


def _settings_flags(options: argparse.Namespace) -> dict[str, str | None]:
    return {
        setting.flag: getattr(options, setting.flag.removeprefix("--").replace("-", "_"), None)
        for setting in config.declared(SECTIONS)
    }


def _up(options: argparse.Namespace, flags: Flags) -> int:
    from antiphon import up

    if options.port is not None:
        flags.setdefault("--edge-port", options.port)
    if "--translator-profiles" in flags:
        raise config.SettingsError("'antiphon up' reads your own model profiles with --profiles DIR.")
    plan = up.Plan(
        data=(options.data or up.default_data_folder()).absolute(),
        gguf=options.gguf,
        triton=options.triton,
        model_directory=options.model_dir,
        model_name=options.model_name,
        triton_model=options.triton_model,
        own_profiles=options.profiles,
    )
    flags["--translator-profiles"] = str(plan.profiles)
    loaded = settings.load(environ=os.environ, flags=flags, file=options.config, preset=up.preset(plan))
    _prepare(loaded, SECTIONS)
    asyncio.run(up.run(plan, loaded))
    return 0


def _serve(options: argparse.Namespace, flags: Flags) -> int:
    names = expand(options.target.split(","))
    loaded = settings.load(environ=os.environ, flags=flags, file=options.config)
    _prepare(loaded, names)  # a target's section has its name
    asyncio.run(_run_targets(names, loaded))
    return 0


async def _run_targets(names: Sequence[str], loaded: Settings) -> None:
    process = Process(loaded)
    await lifecycle.run(build(names, process), on_started=lambda: print(banner.addresses(process), flush=True))


def _migrate_store(options: argparse.Namespace, flags: Flags) -> int:
    from antiphon import store_commands

    loaded = settings.load(environ=os.environ, flags=flags, file=options.config)
    store_commands.migrate(loaded)
    return 0


def _keys(options: argparse.Namespace, flags: Flags) -> int:
    loaded = settings.load(environ=os.environ, flags=flags, file=options.config)
    options.keys(options, loaded.edge, SystemClock())
    return 0


def _parse(options: argparse.Namespace, _flags: Flags) -> int:
    from antiphon import parse_command

    return parse_command.run(options)


def _config(options: argparse.Namespace, flags: Flags) -> int:
    if options.markdown:
        print(settings.as_markdown(), end="")
        return 0
    loaded = settings.load(environ=os.environ, flags=flags, file=options.config)
    for setting in config.declared(SECTIONS):
        value = getattr(getattr(loaded, setting.section), setting.field.name)
        shown = banner.without_password(value) if isinstance(value, str) else value
        print(f"{setting.section}.{setting.field.name} = {shown!r}")
    _print_warnings(loaded, SECTIONS)
    return 0


def _version(_options: argparse.Namespace, _flags: Flags) -> int:
    print(f"antiphon {version('antiphon')}")
    return 0


def _prepare(loaded: Settings, sections: Iterable[str]) -> None:
    logs.configure(loaded.log)
    _print_warnings(loaded, sections)


def _print_warnings(loaded: Settings, sections: Iterable[str]) -> None:
    for message, explanation in loaded.warnings(sections):
        print(f"warning: {message}\n         {explanation}", file=sys.stderr)
