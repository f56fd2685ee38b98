from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from antiphon.cli import COMMANDS, main


def test_python_m_antiphon_runs_a_command() -> None:
    done = subprocess.run([sys.executable, "-m", "antiphon", "version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("antiphon ")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["serve", "--target=nothing"], "antiphon: There is no target 'nothing'"),
        (["serve", "--target=edge"], "antiphon: An edge needs a store"),
        (["serve", "--target=edge", "--edge-host=0.0.0.0"], "antiphon: The edge would listen on 0.0.0.0 and answer"),
        (["serve", "--target=store", "--store-url=mysql://x"], "antiphon: There is no store backend for 'mysql://'."),
        (["config", "--edge-port=many"], "antiphon: --edge-port='many': must be a port, 0 to 65535."),
        (["config", "--config=/nonexistent.toml"], "antiphon: Cannot read the settings file"),
        (["up", "--triton", "127.0.0.1:1"], "antiphon: --triton HOST:PORT and --model-dir DIR need each other."),
        (["up", "--triton", "h:1", "--model-dir", "d", "--gguf", "f"], "antiphon: --gguf and --triton exclude"),
        (["up", "--profiles", "d", "--gguf", "f"], "antiphon: --profiles and --gguf exclude each other"),
        (["up", "--profiles", "/nonexistent"], "antiphon: The directory of model profiles, /nonexistent, does not"),
        (["up", "--profiles", str(Path(__file__).parent)], "antiphon: There is no model profile (*.toml) in /"),
        (["up", "--translator-profiles", "d"], "antiphon: 'antiphon up' reads your own model profiles with --profiles"),
    ],
)
def test_invalid_arguments_print_an_error_and_exit_2(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    if arguments[0] == "up":
        arguments = [*arguments, "--data", str(tmp_path_factory.mktemp("data"))]
    assert main(arguments) == 2
    err = capsys.readouterr().err.splitlines()
    assert err[-1].startswith(says)
    assert "Traceback" not in "".join(err)


def test_a_taken_port_exits_1_with_its_number(capsys: pytest.CaptureFixture[str]) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        arguments = ["serve", "--target=edge", f"--edge-port={port}", "--edge-store=x:1", "--edge-translator=x:1"]
        assert main(arguments) == 1
    assert f"{port}" in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize("command", [["keys", "create"], ["keys", "list"], ["keys", "revoke"], ["store", "migrate"]])
def test_the_help_of_a_command_has_only_the_settings_that_it_uses(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([*command, "--help"])
    out = capsys.readouterr().out
    assert len(out.splitlines()) <= 40
    assert "--store-url" in out if command[0] == "store" else "--edge-keys-file" in out
    assert "--translator-profiles" not in out


def test_a_shell_completes_commands(tmp_path: Path) -> None:
    out = tmp_path / "completions"
    environ = {
        **os.environ, "_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": "\n", "_ARGCOMPLETE_STDOUT_FILENAME": str(out),
        "COMP_LINE": "antiphon d", "COMP_POINT": "10", "COMP_TYPE": "9",
    }  # fmt: skip
    subprocess.run([sys.executable, "-m", "antiphon"], env=environ, check=True)
    assert out.read_text().split() == ["doctor"]


@pytest.mark.parametrize(
    "command", [*([name] for name in COMMANDS), ["keys", "create"], ["store", "backup"]], ids=" ".join
)
def test_the_help_of_a_command_fits_a_screen(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main([*command, "--help"])
    assert len(capsys.readouterr().out.splitlines()) <= 40
