"""Measures the cost of a token and a turn in the whole gateway, beside the engine called directly and beside a peer.

    make bench-gateway
    make bench-gateway SMG=/path/to/smg ARGS='--only chat,ttft'
    make bench-gateway ARGS='--engine-port 9100 --peer http://127.0.0.1:9000 --peer-pid 4711 --peer-model bench'
    make profile ARGS='--only ids --systems split'

Antiphon, the engines and the peer are processes of their own; all listen on this machine only. A peer that you start
yourself must use the fake chat engine of this run, whose port is --engine-port; the bench waits for the peer's first
answer. The bench asserts nothing: its table says which targets are met.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvloop

from antiphon_core.jsons import dumps
from benchmarks.arguments import chosen
from benchmarks.gateway import peers
from benchmarks.gateway.antiphon_systems import systems
from benchmarks.gateway.bench import ROUNDS, Bench
from benchmarks.gateway.engines import Engines, engines
from benchmarks.gateway.flame_graphs import FlameGraphs
from benchmarks.gateway.rows import ROWS
from benchmarks.gateway.subjects import Column, Subject
from benchmarks.gateway.table import as_json, markdown
from benchmarks.gateway.workloads import (
    background,
    capacity,
    chat,
    depth,
    first_tokens,
    ids,
    large_inputs,
    memory,
    services,
    start,
    workers,
)

WORKLOADS: Mapping[str, Callable[[Bench], Coroutine[Any, Any, None]]] = {
    "chat": chat.full_speed,
    "chat-paced": chat.paced,
    "ttft": chat.time_to_first_token,
    "first-tokens": first_tokens.first_tokens,
    "short": chat.short_turns,
    "ids": ids.full_speed,
    "ids-paced": ids.paced,
    "ids-batched": ids.batched,
    "services": services.services,
    "capacity": capacity.capacity,
    "depth": depth.chat,
    "ids-depth": depth.ids,
    "background": background.background,
    "large": large_inputs.large_inputs,
    "memory": memory.memory,
    "start": start.start,
    "workers": workers.workers,
}
_SYSTEMS = {"one": Column.ONE, "split": Column.SPLIT, "peer": Column.PEER}


def main() -> None:
    options = _parse()
    names = chosen("workload", options.only, list(WORKLOADS))
    rows = [row for name in names for row in ROWS[name]]
    begun = time.monotonic()
    graphs = None if options.profile is None else FlameGraphs(options.profile)
    with _bench(options, graphs) as bench:
        for name in names:
            since = time.monotonic()
            uvloop.run(WORKLOADS[name](bench))
            print(f"{name}: {time.monotonic() - since:.0f} s", file=sys.stderr, flush=True)
    wall_s = time.monotonic() - begun
    if graphs is not None:
        print("\n".join(map(str, graphs.written)))
        return
    print(markdown(bench.board, rows))
    print(f"\n{wall_s:.0f} s")
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_bytes(dumps(as_json(bench.board, rows, wall_s=wall_s, peer=_peer_name(options))))


@contextmanager
def _bench(options: argparse.Namespace, graphs: FlameGraphs | None) -> Iterator[Bench]:
    columns = frozenset(_SYSTEMS[name] for name in chosen("system", options.systems, list(_SYSTEMS)))
    with tempfile.TemporaryDirectory(prefix="bench-gateway-") as name:
        folder = Path(name)
        with (
            engines(folder, options.engine_port) as running,
            _peer(options, running, folder) as peer,
            systems(folder, running, graphs) as started,
        ):
            yield Bench(running, started, peer, columns, graphs, options.rounds, options.chain_limit_s)


@contextmanager
def _peer(options: argparse.Namespace, running: Engines, folder: Path) -> Iterator[Subject | None]:
    if options.smg is not None:
        with peers.smg(options.smg, running, folder) as peer:
            yield peer
    elif options.peer is not None:
        yield peers.running_peer(options.peer, options.peer_pid, options.peer_model)
    else:
        yield None


def _peer_name(options: argparse.Namespace) -> str | None:
    return "smg" if options.smg is not None else options.peer


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help=f"workloads, of {','.join(WORKLOADS)}; all when not said")
    parser.add_argument("--systems", default="", help="of one,split,peer; all when not said")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="the best of so many counts")
    parser.add_argument("--chain-limit-s", type=float, default=30, help="how long a chain may take to grow")
    parser.add_argument("--json", type=Path, default=Path("build/bench-gateway.json"), help="file for the figures")
    parser.add_argument("--engine-port", type=int, help="port of the fake chat engine; any free one when not said")
    parser.add_argument("--smg", type=Path, metavar="PATH", help="an smg program to start as the peer")
    parser.add_argument("--peer", metavar="URL", help="a Responses server that runs already")
    parser.add_argument("--peer-pid", type=int, help="its process id, to count its processor time")
    parser.add_argument("--peer-model", default="bench", help="what it calls the model")
    parser.add_argument("--profile", type=Path, metavar="FOLDER", help="write flame graphs instead of the table")
    return parser.parse_args()


if __name__ == "__main__":
    main()
