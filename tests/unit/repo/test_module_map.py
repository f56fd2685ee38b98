"""The tests of a module are at its path under tests/unit, or under tests/service if they need a server, a process or
real time. Small modules of a folder may share `test_<folder>.py` there, which imports each of them. Tables list the
exceptions with their reasons."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[3]
SOURCES = {
    "antiphon_http2": ROOT / "libs",
    "antiphon_core": ROOT / "libs",
    "antiphon_store": ROOT / "services/store",
    "antiphon_translator": ROOT / "services/translator",
    "antiphon_tools": ROOT / "services/tools",
    "antiphon_edge": ROOT / "services/edge",
    "antiphon": ROOT / "services/allinone",
    "antiphon_local_triton": ROOT / "services/allinone",
    "antiphon_tokens": ROOT / "triton_models",
    "antiphon_store_client": ROOT / "clients/python",
}
MIRRORS = [ROOT / "tests/unit", ROOT / "tests/service"]
# module -> (the tests that cover it, the reason why they are not at the mirrored path)
ELSEWHERE = {
    "antiphon_store/backends/postgres/plain_text.py": (
        "tests/contract/store/test_rows.py",
        "text with NUL needs a server",
    ),
    "antiphon_store/rows/maintenance.py": (
        "tests/contract/store/test_operations.py",
        "a protocol: every row backend runs it",
    ),
    "antiphon_store/backends/sql_views.py": ("tests/contract/store/test_sql_views.py", "equal on every database"),
    "antiphon_store/backends/sql_maintenance.py": (
        "tests/contract/store/test_operations.py",
        "equal on every database",
    ),
    **dict.fromkeys(
        (f"antiphon_store/backends/{database}/maintenance.py" for database in ("sqlite", "postgres", "redis")),
        ("tests/contract/store/test_operations.py", "equal on every database"),
    ),
    "antiphon_store/backends/postgres/programs.py": ("tests/contract/store/test_rows.py", "random programs"),
    **dict.fromkeys(
        ("antiphon_edge/turns/ended_turns.py", "antiphon_edge/routes/cache.py"),
        ("tests/integration/test_cache_explained.py", "reads what turns of a whole system have stored"),
    ),
    "antiphon_core/limits.py": (
        "tests/unit/repo/test_limits.py",
        "constants: tested where used, here their form",
    ),
    "antiphon_http2/connection.py": (
        "tests/unit/antiphon_http2/server/test_rfc_9113.py",
        "what both ends share: as a server here, as a client in client/test_connection.py",
    ),
    "antiphon_http2/socket_link.py": ("tests/unit/antiphon_http2/client/test_link.py", "what both ends share"),
    "antiphon_http2/server/call.py": ("tests/contract/http2/test_grpc_clients.py", "its other end is a client"),
    "antiphon_http2/server/events.py": (
        "tests/unit/antiphon_http2/server/test_connection.py",
        "values without behaviour",
    ),
    "antiphon_http2/server/link.py": ("tests/contract/http2/test_grpc_clients.py", "its other end is a client"),
    "antiphon_http2/server/server.py": ("tests/contract/http2/test_grpc_clients.py", "its other end is a client"),
    "antiphon_http2/server/stream.py": (
        "tests/unit/antiphon_http2/server/test_connection.py",
        "values without behaviour",
    ),
    "antiphon_http2/server/tls.py": ("tests/contract/http2/test_grpc_clients.py", "its other end is a client"),
    "antiphon_http2/limits.py": (
        "tests/unit/repo/test_limits.py",
        "constants: tested where used, here their form",
    ),
    "antiphon_core/telemetry/log_fields.py": ("tests/unit/antiphon/test_logs.py", "names without behaviour"),
    "antiphon_core/rpc/call_metadata.py": ("tests/service/antiphon_core/rpc/test_server.py", "names without behaviour"),
    "antiphon_core/ports/store.py": ("tests/contract/store", "a protocol: every implementation runs its suite"),
    "antiphon_core/ports/translator.py": ("tests/contract/translator", "a protocol: local and remote run its suite"),
    "antiphon_core/ports/approvals.py": ("tests/contract/store", "a protocol: every implementation runs its suite"),
    "antiphon_core/ports/full_store.py": ("tests/contract/store/test_suites.py", "the sum of protocols"),
    "antiphon_core/ports/conversations.py": (
        "tests/contract/store/test_suites.py",
        "a protocol: service and client run its suite",
    ),
    "antiphon_core/ports/prompts.py": (
        "tests/contract/store/test_suites.py",
        "a protocol: service and client run its suite",
    ),
    "antiphon_translator/output/model_output.py": (
        "tests/unit/antiphon_translator/output/test_outputs.py",
        "protocols: each of their implementations is tested there",
    ),
    "antiphon_store/backends/sqlite/backend.py": (
        "tests/contract/store/test_rows.py",
        "random programs have the outcomes that they have in memory",
    ),
    "antiphon_store/rows/local_reads.py": (
        "tests/contract/store/test_rows.py",
        "random programs have the same outcomes on every backend",
    ),
    "antiphon_store/decisions/records.py": (
        "tests/contract/store/test_suites.py",
        "the kit finds every mutant of it, and the transactions are counted in topics/test_round_trips.py",
    ),
    "antiphon_core/ports/event_logs.py": (
        "tests/contract/store/test_suites.py",
        "a protocol: service and client run its suites",
    ),
    "antiphon_core/ports/jobs.py": (
        "tests/contract/store/test_suites.py",
        "a protocol: service and client run its suites",
    ),
    "antiphon_core/ports/retention.py": (
        "tests/contract/store/test_suites.py",
        "a protocol: service and client run its suites",
    ),
    "antiphon_core/ports/quotas.py": (
        "tests/contract/store/test_suites.py",
        "a protocol: service and client run its suites",
    ),
    "antiphon_store/rows/backend.py": ("tests/contract/store/test_rows.py", "a protocol: every row backend runs it"),
    "antiphon_core/ports/lineage.py": (
        "tests/contract/store/test_suites.py",
        "a protocol: service and client run its suite",
    ),
    "antiphon_http2/client/client.py": ("tests/contract/http2/test_grpc_servers.py", "its other end is a server"),
    **dict.fromkeys(
        (f"antiphon_tools/{name}.py" for name in ("service", "server", "wire")),
        ("tests/contract/tools/test_tools_port.py", "the port in this process and over gRPC passes one suite"),
    ),
    "antiphon_core/ports/web_search.py": (
        "tests/contract/tools/test_web_search.py",
        "a protocol: service and client run its suite",
    ),
    "antiphon_tools/web/web_search.py": (
        "tests/contract/tools/test_web_search.py",
        "the port in this process and over gRPC passes one suite",
    ),
    "antiphon_translator/engines/base.py": ("tests/contract/engine", "a protocol: every engine runs its suite"),
    "antiphon_tokens/gbnf/guides.py": ("tests/integration/local/test_grammars.py", "converts with llama.cpp"),
    "antiphon_tokens/gbnf/trial.py": ("tests/integration/local/test_grammars.py", "a process that llama.cpp may end"),
    "antiphon_tokens/tensors.py": ("tests/unit/antiphon_tokens/test_requests.py", "a thin layer over Triton's module"),
    "antiphon_local_triton/errors.py": ("tests/unit/antiphon_local_triton", "one class without behaviour"),
}
# test module -> its subject, which is no module of a package
FOREIGN = {
    "antiphon_local_triton/test_chatml.py": "chatml.jinja",
    "antiphon_http2/server/test_rfc_9113.py": "connection.py, case by case of the RFC",
    "antiphon_http2/server/test_floods.py": "connection.py, and what one client may make it do",
    "antiphon_edge/turns/test_log_follower.py": "the readers in event_logs.py",
    "antiphon_edge/turns/test_turn_jobs.py": "the jobs in durable_turns.py",
    "antiphon_translator/test_pipeline_calls.py": "pipeline.py with a model that reasons and calls tools",
    "antiphon_translator/test_pipeline_resuming.py": "pipeline.py when another translator continues a turn",
    "antiphon_translator/test_pipeline_logprobs.py": "pipeline.py with log probabilities, from ids to events",
    "antiphon_translator/test_pipeline_logprobs_shaped.py": "log probabilities of stopped, guided or forced answers",
    "antiphon_store/topics/test_races.py": "time and other writers between two round trips of an operation",
    "antiphon_store/topics/test_round_trips.py": "every operation of the store, by the transactions that it takes",
    "antiphon_store/testing/test_operations.py": "the list of operations that the kit's tools go by",
    "antiphon_store/testing/test_faulty.py": "the faults that tests inject",
    "antiphon_store/testing/test_wrapper.py": "what wraps a store in tests",
    "antiphon_store/testing/test_linearizability.py": "the kit's search, which finds nothing if it is wrong",
    "antiphon_store/testing/test_sequential_models.py": "the kit's models, which blame others if they are wrong",
    "antiphon_store/testing/test_histories.py": "the kit's recorder, and that broken stores are noticed",
}


def source_modules() -> list[str]:
    found = []
    for package, root in SOURCES.items():
        for path in (root / package).rglob("*.py"):
            relative = path.relative_to(root).as_posix()
            kit = "testing" in path.parts  # the conformance kit consists of tests
            if path.name != "__init__.py" and not path.stem.endswith("_pb2") and not kit:
                found.append(relative)
    return sorted(found)


def has_tests(module: str) -> bool:
    folder, _, name = module.rpartition("/")
    own = any((root / folder / f"test_{name}").exists() for root in MIRRORS)
    return own or any(module in modules_tested_by(shared_tests(root / folder)) for root in MIRRORS)


def shared_tests(folder: Path) -> Path:
    return folder / f"test_{folder.name}.py"


@cache
def modules_tested_by(path: Path) -> frozenset[str]:
    """Returns the modules beside each other that a shared test file imports. Modules of other folders do not count."""
    if not path.exists():
        return frozenset()
    return frozenset(imported_modules(path.read_text(encoding="utf-8"), path.parent.relative_to(mirror_of(path))))


def imported_modules(text: str, folder: Path) -> set[str]:
    package = ".".join(folder.parts)
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module == package:
            found |= {f"{folder}/{each.name}.py" for each in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").rpartition(".")[0] == package:
            found.add(f"{folder}/{(node.module or '').rpartition('.')[2]}.py")
    return found


def mirror_of(path: Path) -> Path:
    return next(root for root in MIRRORS if path.is_relative_to(root))


def test_every_module_has_its_own_test_module() -> None:
    missing = [m for m in source_modules() if m not in ELSEWHERE and not has_tests(m)]
    assert not missing, "no test module for: " + ", ".join(missing)


def test_every_test_module_mirrors_a_module() -> None:
    sources = set(source_modules())
    for relative in (path.relative_to(root) for root in MIRRORS for path in root.rglob("test_*.py")):
        if relative.parts[0] in ("repo", "bench") or relative.as_posix() in FOREIGN:
            continue
        source = (relative.parent / relative.name.removeprefix("test_")).as_posix()
        is_shared = relative.name == f"test_{relative.parent.name}.py"
        assert source in sources or is_shared, f"{relative} mirrors no module"


def test_a_shared_test_file_covers_the_modules_that_it_imports_and_no_other() -> None:
    text = "from a.b import c\nfrom a.b.d import run\nfrom a.e import f\nfrom a.b.g.h import i\n"
    assert imported_modules(text, Path("a/b")) == {"a/b/c.py", "a/b/d.py"}


def test_exceptions_name_existing_modules_and_tests() -> None:
    sources = set(source_modules())
    for module, (tests, _reason) in ELSEWHERE.items():
        assert module in sources, module
        assert (ROOT / tests).exists(), tests
