"""`antiphon up`: declares its arguments, and makes the plan and the settings of them."""

from __future__ import annotations

import argparse
from pathlib import Path

from antiphon import event_loop, logs, stop_signals
from antiphon.folders import default_data_folder
from antiphon.settings import SECTIONS
from antiphon.settings_flags import add_settings, flags_of, load
from antiphon_core.config import SettingsError


def declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--port", help="HTTP port; 0 lets the system choose (default 8000)")
    parser.add_argument("--data", type=Path, help="the folder of the store and the models")
    parser.add_argument("--gguf", type=Path, help="serve this GGUF file instead of the toy model")
    parser.add_argument("--triton", metavar="HOST:PORT", help="use your own Triton (needs --model-dir)")
    parser.add_argument("--openai", metavar="URL", help="use your NIM, vLLM, SGLang or llama.cpp: http://host:8000/v1")
    parser.add_argument("--openai-key-file", type=Path, metavar="FILE", help="holds the API key of that server")
    parser.add_argument("--model-dir", type=Path, help="tokenizer and template of the model that your server serves")
    parser.add_argument("--model-name", help="the model's name in requests; with --openai, the only one to serve")
    parser.add_argument("--triton-model", help="the model's name in your Triton (default tensorrt_llm)")
    parser.add_argument("--profiles", type=Path, metavar="DIR", help="serve the models of your own model profiles")
    add_settings(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    stop_signals.end_at_once_on_any()
    from antiphon import up  # imported late: --help needs none of the packages that prepare models

    flags = flags_of(options)
    if options.port is not None:
        flags.setdefault("--edge-port", options.port)
    if "--translator-profiles" in flags:
        raise SettingsError("'antiphon up' reads your own model profiles with --profiles DIR.")
    plan = up.Plan(
        data=(options.data or default_data_folder()).absolute(),
        gguf=options.gguf,
        triton=options.triton,
        openai=options.openai,
        openai_key_file=options.openai_key_file,
        model_directory=options.model_dir,
        model_name=options.model_name,
        triton_model=options.triton_model,
        own_profiles=options.profiles,
    )
    flags["--translator-profiles"] = str(plan.profiles)
    loaded = load(options, flags=flags, preset=up.preset(plan))
    logs.configure(loaded.log)
    loaded.print_warnings(SECTIONS)
    event_loop.run(up.run(plan, loaded))
    return 0
