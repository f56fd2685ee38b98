"""Generates the clients of `antiphon.store.v1` from its .proto files.

`python clients/generate.py` writes the Python messages, which are committed. The TypeScript sources are part of the
package that `clients/package.py` makes. Go has a template for buf, `clients/go/buf.gen.yaml`.
"""

from __future__ import annotations

import shutil
import tempfile
from importlib.resources import files
from itertools import groupby
from pathlib import Path

import orjson
from grpc_tools import protoc

from antiphon_core.rpc.methods import STORE
from antiphon_core.rpc.services import Method, Repeat

ROOT = Path(__file__).absolute().parents[1]
PROTOS = ROOT / "protos"
PROTOC_GEN_ES = ROOT / "node_modules/.bin/protoc-gen-es"
INCLUDES = [f"-I{PROTOS}", f"-I{files('google.rpc') / '../..'}", f"-I{files('grpc_tools') / '_proto'}"]
PUBLIC = sorted(str(path.relative_to(PROTOS)) for path in (PROTOS / "antiphon/store/v1").glob("*.proto"))
DETAILS = ["google/rpc/error_details.proto", "google/rpc/status.proto"]
RETRY_POLICY = {
    "maxAttempts": 3,
    "initialBackoff": "0.05s",
    "maxBackoff": "0.2s",
    "backoffMultiplier": 2,
    "retryableStatusCodes": ["UNAVAILABLE"],
}

# The client has a descriptor pool and modules of its own, because a process may also import Antiphon's messages, which
# have the same names, and because the packages `antiphon` and `google` are not the client's.
RENAMES = {
    "from google.protobuf import descriptor_pool as _descriptor_pool": "from antiphon_store_client.pool import POOL",
    "_descriptor_pool.Default()": "POOL",
    "from antiphon.store.v1 import": "from antiphon_store_client.v1 import",
    ", _Mapping]": ", _Mapping[str, object]]",
}


def generate_python(client: Path = ROOT / "clients/python/antiphon_store_client") -> None:
    """Writes the messages with their type stubs, and gRPC's service config."""
    with tempfile.TemporaryDirectory() as made:
        _compile(f"--python_out={made}", f"--pyi_out={made}", *PUBLIC, *DETAILS)
        _rename(Path(made) / "antiphon/store/v1", client / "v1")
        _rename(Path(made) / "google/rpc", client / "details")
    stems = [Path(path).stem for path in PUBLIC]
    lines = [f"from antiphon_store_client.v1.{stem}_pb2 import *" for stem in stems]
    (client / "v1/__init__.py").write_text('"""Messages of `antiphon.store.v1`."""\n\n' + "\n".join(lines) + "\n")
    (client / "details/__init__.py").write_text('"""Messages of `google.rpc` that errors carry."""\n')
    (client / "service_config.json").write_bytes(orjson.dumps(service_config(), option=orjson.OPT_INDENT_2) + b"\n")


def _rename(made: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for path in made.iterdir():
        text = path.read_text(encoding="utf-8")
        for old, new in RENAMES.items():
            text = text.replace(old, new)
        (target / path.name).write_text(text, encoding="utf-8")


def service_config() -> dict[str, object]:
    """The service config with the deadlines of the table of methods, and retries for repeatable methods."""
    public = [method for method in STORE.methods.values() if method.service.startswith("antiphon.store.v1.")]
    by_row = groupby(sorted(public, key=_config_of), key=_config_of)
    return {
        "loadBalancingConfig": [{"round_robin": {}}],
        "methodConfig": [_method_config(list(methods), *row) for row, methods in by_row],
        "retryThrottling": {"maxTokens": 10, "tokenRatio": 0.1},
    }


def _config_of(method: Method) -> tuple[float, bool]:
    return method.row.deadline_s or 0.0, method.row.repeat not in (Repeat.KEYED, Repeat.ITEMS)


def _method_config(methods: list[Method], deadline_s: float, can_repeat: bool) -> dict[str, object]:
    names = [{"service": method.service, "method": method.name} for method in methods]
    config: dict[str, object] = {"name": names, "timeout": f"{deadline_s:g}s"}
    return config | {"retryPolicy": RETRY_POLICY} if can_repeat else config


def generate_typescript(folder: Path) -> None:
    """Writes JavaScript modules with their types, for `@connectrpc/connect`."""
    folder.mkdir(parents=True, exist_ok=True)
    plugin = f"--plugin=protoc-gen-es={PROTOC_GEN_ES}"
    _compile(plugin, f"--es_out={folder}", "--es_opt=target=js+dts,import_extension=js", *PUBLIC, *DETAILS)
    modules = [source.replace(".proto", "_pb.js") for source in (*PUBLIC, DETAILS[0])]
    index = "".join(f'export * from "./{module}";\n' for module in modules)
    for name in ("index.js", "index.d.ts"):
        (folder / name).write_text(index, encoding="utf-8")


def _compile(*arguments: str) -> None:
    if protoc.main(["protoc", *INCLUDES, *arguments]) != 0:
        raise SystemExit("protoc failed")


if __name__ == "__main__":
    generate_python()
