"""Generates the betterproto2 messages of all .proto files: `python protos/generate.py [folder]`."""

from __future__ import annotations

import os
import shutil
import sys
from importlib.resources import files
from pathlib import Path

from grpc_tools import protoc

HERE = Path(__file__).absolute().parent
# Messages only: handlers and stubs come from the descriptors (antiphon_core.rpc).
OPTIONS = "google_protobuf_descriptors,client_generation=none,server_generation=none"


def generate(target: Path) -> None:
    target = target.absolute()
    target.mkdir(parents=True, exist_ok=True)
    os.chdir(HERE)  # the compiler formats by the configuration of the folder it runs in
    shutil.rmtree(target / "antiphon", ignore_errors=True)
    sources = sorted(str(path.relative_to(HERE)) for path in (HERE / "antiphon").rglob("*.proto"))
    arguments = [
        "protoc",
        f"-I{HERE}",
        f"-I{files('grpc_tools') / '_proto'}",
        f"--python_betterproto2_out={target}",
        f"--python_betterproto2_opt={OPTIONS}",
        *sources,
    ]
    if protoc.main(arguments) != 0:
        raise SystemExit("protoc failed")


if __name__ == "__main__":
    generate(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "python" / "antiphon_protos")
