"""The rows of the table by workload, with the limits that the project has set itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.gateway.board import Limit, Row
from benchmarks.gateway.subjects import Column

ENGINE, PEER, ONE, SPLIT = Column.ENGINE, Column.PEER, Column.ONE, Column.SPLIT
AT_ONCE = (1, 16, 64, 512)
IDS_AT_ONCE = (1, 16, 64)
STREAMS_BETWEEN_SERVICES = {64: 20, 256: 80, 1024: 320}
"""Numbers of streams, with the milliseconds between two ids of a stream: 3,200 ids a second in all, 64 in each step."""
BESIDE = {"alone": "alone", "paced": "beside 64 chat streams at 20 ms", "full": "beside 64 chat streams at full speed"}
"""The other streams when a new one begins."""
DEPTHS = (1, 10, 100, 300, 1000)
IDS_DEPTHS = (1, 10, 100, 300)


def most(
    column: Column,
    bound: float,
    of: str | None = None,
    base: Column = PEER,
    *,
    beyond: float = 0,
    stretch: float | None = None,
) -> Limit:
    """Sets an upper bound: a multiple of the value of row `of` in the column `base`, or without `of` the value itself.
    `beyond` is free, and the bound is that of the rest."""
    return Limit(column, bound, None if of is None else (of, base), beyond=beyond, stretch=stretch)


def least(column: Column, bound: float, of: str | None = None, base: Column = ONE) -> Limit:
    return Limit(column, bound, None if of is None else (of, base), is_least=True)


_CHAT_CPU = {64: (most(ONE, 0.8, "chat-64-cpu", stretch=0.4), most(SPLIT, 1.2, "chat-64-cpu"))}
_IDS_CPU = {
    at_once: (
        most(ONE, 3, f"ids-{at_once}-cpu", ENGINE, stretch=2),
        most(SPLIT, 8, f"ids-{at_once}-cpu", ENGINE),
    )
    for at_once in (16, 64)
}
_PACED_IDS_CPU = {64: (most(ONE, 3.5, "ids-paced-written", ENGINE),)}
_FIRST_TOKENS = {("paced", 50): tuple(most(each, 2, "first-paced-p50", ENGINE, beyond=3) for each in (ONE, SPLIT))}
_DEPTH = {300: (most(ONE, 2, "depth-1", ONE), most(ONE, 1, "depth-300"))}
_IDS_DEPTH = {300: (most(ONE, 4, "ids-depth-1", ONE),)}


def _streams(count: int) -> str:
    return "1 stream" if count == 1 else f"{count} streams"


def _paced_capacity(key: str, what: str) -> Sequence[Row]:
    return (
        Row(f"{key}-errors", f"{what}: errors", "", (most(ONE, 0),)),
        Row(f"{key}-ttft", f"{what}: TTFT p99", "ms", (most(ONE, 1000),)),
        Row(f"{key}-gap", f"{what}: between two tokens, p99", "ms", (most(ONE, 3, f"{key}-gap", ENGINE),)),
        Row(f"{key}-memory", f"{what}: memory per stream", "KB", (most(ONE, 60),)),
        Row(f"{key}-cpu", f"{what}: CPU per token", "us"),
    )


def _background(key: str, what: str) -> Sequence[Row]:
    limits = (most(ONE, 2, f"attached-{key}", ONE), most(SPLIT, 2, f"attached-{key}", SPLIT))
    return (
        Row(f"attached-{key}", f"CPU per delta, 64 streams at 50 tokens/s, {what}", "us"),
        Row(f"background-{key}", f"CPU per delta, 64 in the background at 50 tokens/s, {what}", "us", limits),
    )


ROWS: Mapping[str, Sequence[Row]] = {
    "chat": (
        *(
            Row(f"chat-{count}-cpu", f"CPU per delta, chat upstream, {_streams(count)}", "us", _CHAT_CPU.get(count, ()))
            for count in AT_ONCE
        ),
        Row("chat-64-rate", "chat upstream, 64 streams", "k deltas/s"),
        Row("chat-64-ttft", "TTFT p50, chat upstream, 64 streams", "ms", (most(ONE, 2, "chat-64-ttft"),)),
    ),
    "chat-paced": tuple(
        Row(f"chat-paced-{count}-cpu", f"CPU per delta, chat upstream, {_streams(count)} at 20 ms", "us")
        for count in AT_ONCE
    ),
    "ttft": (Row("ttft", "added TTFT p50, 1 stream", "ms", (most(ONE, 1.3, "ttft"), most(SPLIT, 1.8))),),
    "first-tokens": tuple(
        Row(
            f"first-{manner}-p{percent}",
            f"TTFT p{percent} of a stream {others}",
            "ms",
            _FIRST_TOKENS.get((manner, percent), ()),
        )
        for manner, others in BESIDE.items()
        for percent in (50, 95)
    ),
    "short": (Row("short", "CPU of a turn of 16 deltas", "ms", (most(ONE, 1.4, "short"), most(SPLIT, 2.2, "short"))),),
    "ids": tuple(
        Row(f"ids-{count}-cpu", f"CPU per message, Triton ids, {_streams(count)}", "us", _IDS_CPU.get(count, ()))
        for count in IDS_AT_ONCE
    ),
    "ids-paced": (
        *(
            Row(
                f"ids-paced-{count}-cpu",
                f"CPU per message, Triton ids, {_streams(count)} at 20 ms",
                "us",
                _PACED_IDS_CPU.get(count, ()),
            )
            for count in IDS_AT_ONCE
        ),
        Row("ids-paced-written", "the least cost of the last with a write to its client", "us"),
        Row(
            "ids-paced-hop",
            "the hops of the split: split minus one process, 64 streams at 20 ms",
            "us",
            (most(SPLIT, 2.5, "ids-paced-64-cpu", ENGINE),),
        ),
    ),
    "services": tuple(
        Row(f"services-{count}-{measure}{tls}", f"{count:,} streams with an id each {pace} ms{with_tls}: {what}", unit)
        for count, pace in STREAMS_BETWEEN_SERVICES.items()
        for tls, with_tls in {"": "", "-tls": ", TLS between the services"}.items()
        for measure, what, unit in (
            ("cpu", "CPU per id", "us"),
            ("cores", "cores for 100,000 ids/s", ""),
            ("gap", "between two ids, p99", "ms"),
        )
    ),
    "ids-batched": (Row("ids-batched", "CPU per id, 16 ids per message, 64 streams", "us", (most(ONE, 5),)),),
    "capacity": (
        *_paced_capacity("capacity-ids", "256 streams of Triton ids at 20 ms on 2 cores"),
        *_paced_capacity("capacity-chat", "512 chat streams at 20 ms on 2 cores"),
    ),
    "depth": (
        *(
            Row(f"depth-{depth}", f"turn at depth {depth}, chat upstream", "ms", _DEPTH.get(depth, ()))
            for depth in DEPTHS
        ),
        Row("depth-messages", "messages that the engine got at depth 1,000", "", (least(ONE, 1999),)),
    ),
    "ids-depth": (
        *(
            Row(f"ids-depth-{depth}", f"turn at depth {depth}, Triton ids", "ms", _IDS_DEPTH.get(depth, ()))
            for depth in IDS_DEPTHS
        ),
        Row(
            "ids-depth-cpu",
            "CPU of a turn at depth 300, Triton ids; engine: one plain Jinja render",
            "ms",
            (most(ONE, 3, "ids-depth-cpu", ENGINE),),
        ),
    ),
    "background": (*_background("sqlite", "SQLite"), *_background("redis", "Redis")),
    "large": (
        Row("small-alone-p50", "a small request alone, p50", "ms"),
        Row("small-alone-p99", "a small request alone, p99", "ms"),
        *(
            Row(
                f"small-beside-{percentile}",
                f"a small request beside inputs of 1 MB, {percentile}",
                "ms",
                tuple(most(column, 3, f"small-alone-{percentile}", column) for column in (ONE, SPLIT)),
            )
            for percentile in ("p50", "p99")
        ),
        Row("large-cpu", "CPU of an input of 1 MB", "ms"),
        Row("large-memory", "memory at most, two inputs of 1 MB at once", "MB"),
    ),
    "memory": (
        Row("memory-idle", "memory idle, one tokenizer", "MB", (most(ONE, 150),)),
        Row("memory-warm", "memory after 2,000 streams", "MB"),
        Row("memory-streams", "memory after 10,000 more", "MB", (most(ONE, 1.1, "memory-warm", ONE),)),
        Row(
            "memory-long",
            "memory at most in a stream of 100,000 tokens",
            "MB",
            (most(ONE, 1.1, "memory-streams", ONE),),
        ),
    ),
    "start": (
        Row("start-version", "CPU of `antiphon version`", "s", (most(ONE, 0.2),)),
        Row("start-help", "CPU of `antiphon --help`", "s", (most(ONE, 0.2),)),
        Row("start-edge", "CPU until `serve --target=edge` is ready", "s", (most(SPLIT, 0.8),)),
    ),
    "workers": (
        Row("workers-1", "deltas per CPU second, 1 worker", "k"),
        Row("workers-2", "deltas per CPU second, `--workers 2`", "k", (least(ONE, 0.9, "workers-1"),)),
        Row("workers-share", "CPU of the busier worker over the other's", "x", (most(ONE, 1.2),)),
    ),
}
"""The figures that each workload measures."""
