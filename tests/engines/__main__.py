"""`make engines`: tries the gateway before real servers and writes docs/reference/engines.md. With `--record` the
answers of the servers replace the recordings of tests/golden/engines. Ends with 1 if something was found."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.engines.exchange import Answer, ask
from tests.engines.gateway_checks import CHECKS, Tried
from tests.engines.page import Results, page
from tests.engines.servers import KINDS, Kind, Server, serving
from tests.support.system import up

ROOT = Path(__file__).parents[2]
RECORDINGS = ROOT / "tests/golden/engines"
PAGE = ROOT / "docs/reference/engines.md"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", action="store_true")
    record = parser.parse_args().record
    results = {kind: _try(kind, record=record) for kind in KINDS}
    PAGE.write_text(page(results), "utf-8")
    return int(any(each.changed or set(each.findings.values()) != {"ok"} for each in results.values()))


def _try(kind: Kind, *, record: bool) -> Results:
    print(f"{kind.title} {kind.engine.version}", flush=True)
    with serving(kind) as server:
        changed = _compare(server, record=record)
        with tempfile.TemporaryDirectory() as data:
            url = f"http://127.0.0.1:{server.port}/v1"
            with up(Path(data), "--openai", url) as system:
                findings = {name: _finding(name, Tried(system, server)) for name in CHECKS}
    return Results(len(kind.cases) - len(changed), changed, findings)


def _compare(server: Server, *, record: bool) -> list[str]:
    """The cases whose answers have another shape than those recorded before this run."""
    changed = []
    for name, body in server.kind.cases.items():
        path = RECORDINGS / f"{server.kind.engine.name}-{name}.http"
        answer = ask(server.port, body)
        if not path.exists() or answer.shape() != Answer(path.read_bytes()).shape():
            changed.append(name)
        if record:
            path.write_bytes(answer.raw)
    print(f"  other than recorded: {', '.join(changed) or 'none'}", flush=True)
    return changed


def _finding(name: str, tried: Tried) -> str:
    try:
        CHECKS[name](tried)
    except Exception as error:  # noqa: BLE001 - whatever it is, the page says it
        finding = f"{type(error).__name__}: {error}".splitlines()[0][:200].replace("|", "/")
    else:
        finding = "ok"
    print(f"  {name}: {finding}", flush=True)
    return finding


if __name__ == "__main__":
    sys.exit(main())
