"""The dashboards, as tables of panels. `make docs` writes them as Grafana's JSON into `dashboards/`.

A panel is a title, what it means, its unit, and queries with their legends. `$namespace` and `$__rate_interval` are
Grafana's; the metrics are in docs/reference/metrics.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "dashboards"
WIDTH, HEIGHT, COLUMNS = 8, 8, 3
NAMESPACE = 'namespace=~"$namespace"'
STORE = 'service="store"'
RPCS = "antiphon_rpc_server_duration_seconds"

Json = dict[str, object]


@dataclass(frozen=True, slots=True)
class Panel:
    title: str
    meaning: str
    unit: str
    queries: tuple[tuple[str, str], ...]
    """Expression and legend."""


def rate(metric: str, *labels: str, match: str = "") -> str:
    chosen = ",".join(filter(None, (NAMESPACE, match)))
    return f"sum{_by(labels)}(rate({metric}{{{chosen}}}[$__rate_interval]))"


def total(metric: str, *labels: str, how: str = "sum", match: str = "") -> str:
    chosen = ",".join(filter(None, (NAMESPACE, match)))
    return f"{how}{_by(labels)}({metric}{{{chosen}}})"


def _by(labels: tuple[str, ...]) -> str:
    return f" by ({', '.join(labels)}) " if labels else ""


def quantiles(metric: str, *labels: str, match: str = "") -> tuple[tuple[str, str], ...]:
    """The middle, and the slowest twentieth and hundredth."""
    legend = " ".join(f"{{{{{label}}}}}" for label in labels)
    buckets = rate(f"{metric}_bucket", "le", *labels, match=match)
    return tuple(
        (f"histogram_quantile({q}, {buckets})", f"p{round(q * 100)} {legend}".strip()) for q in (0.5, 0.95, 0.99)
    )


DASHBOARDS: dict[str, tuple[Panel, ...]] = {
    "service": (
        Panel(
            "Requests", "Answers by their code.", "reqps", ((rate("antiphon_http_requests_total", "code"), "{{code}}"),)
        ),
        Panel(
            "Failed requests",
            "Over an hour and over five minutes; the objective is 0.1 %.",
            "percentunit",
            (
                (f"antiphon:availability_errors:ratio_rate1h{{{NAMESPACE}}}", "{{namespace}} 1 h"),
                (f"antiphon:availability_errors:ratio_rate5m{{{NAMESPACE}}}", "{{namespace}} 5 min"),
            ),
        ),
        Panel(
            "Streams open",
            "What clients hold open now.",
            "short",
            ((total("antiphon_streams_open", "kind"), "{{kind}}"),),
        ),
        Panel("First token", "From the acceptance of a turn.", "s", quantiles("antiphon_time_to_first_token_seconds")),
        Panel("Between tokens", "Between two batches of output.", "s", quantiles("antiphon_inter_token_seconds")),
        Panel(
            "Requests in time",
            "How long answers took, streams included.",
            "s",
            quantiles("antiphon_http_request_duration_seconds"),
        ),
        Panel(
            "Rejected",
            "429 and 503, by the limit.",
            "reqps",
            ((rate("antiphon_admission_rejected_total", "limit"), "{{limit}}"),),
        ),
        Panel(
            "Streams cut", "By the reason.", "reqps", ((rate("antiphon_streams_cut_total", "reason"), "{{reason}}"),)
        ),
        Panel(
            "Event loop",
            "The longest stop of the last ten seconds, by pod.",
            "s",
            ((total("antiphon_event_loop_lag_recent_max_seconds", "pod", how="max"), "{{pod}}"),),
        ),
        Panel(
            "Memory returned",
            "How often a process short of memory returned what was free: a collection stops it for a moment.",
            "ops",
            ((rate("antiphon_memory_returned_total", "pod", "step"), "{{pod}} {{step}}"),),
        ),
    ),
    "turn": (
        Panel(
            "Turns in flight",
            "By delivery: what edges, workers and translators scale on.",
            "short",
            ((total("antiphon_turns_in_flight", "delivery"), "{{delivery}}"),),
        ),
        Panel(
            "Turns ended",
            "By status.",
            "reqps",
            ((rate("antiphon_turn_duration_seconds_count", "status"), "{{status}}"),),
        ),
        Panel("Duration", "From acceptance to terminal event.", "s", quantiles("antiphon_turn_duration_seconds")),
        Panel(
            "Failures",
            "Turns that ended as failed, by the error.",
            "reqps",
            ((rate("antiphon_turn_failures_total", "error"), "{{error}}"),),
        ),
        Panel(
            "Start",
            "History, idempotency key and session, before the engine.",
            "s",
            quantiles("antiphon_turn_start_seconds"),
        ),
        Panel("Commit", "Until the record is durable.", "s", quantiles("antiphon_commit_duration_seconds")),
        Panel(
            "Queue of the background",
            "What waits for a worker.",
            "short",
            ((total("antiphon_job_queue_depth", how="max"), "waiting"),),
        ),
        Panel(
            "Oldest in the queue",
            "How long the head of the queue has been due.",
            "s",
            ((total("antiphon_job_queue_oldest_seconds", how="max"), "oldest"),),
        ),
        Panel(
            "Slots of workers",
            "Those that run, and all.",
            "short",
            (
                (total("antiphon_worker_slots_busy"), "busy"),
                (total("antiphon_worker_slots"), "all"),
            ),
        ),
        Panel(
            "Takeovers and replays",
            "Turns that went on behind the end of another, and streams from the log.",
            "reqps",
            (
                (rate("antiphon_takeovers_total", "kind"), "taken over: {{kind}}"),
                (rate("antiphon_replays_total", "reason"), "replayed: {{reason}}"),
            ),
        ),
        Panel("Event log behind", "Until an event is in the log.", "s", quantiles("antiphon_event_log_lag_seconds")),
        Panel(
            "Unknown events",
            "Events of types that a pod does not know: a newer release makes them.",
            "ops",
            ((rate("antiphon_unknown_events_total", "pod"), "{{pod}}"),),
        ),
    ),
    "store": (
        Panel(
            "Calls",
            "By method.",
            "reqps",
            (
                (
                    rate(f"{RPCS}_count", "method", match=STORE),
                    "{{method}}",
                ),
            ),
        ),
        Panel(
            "Duration of turns' calls",
            "BeginTurn and CommitTurn.",
            "s",
            quantiles(RPCS, "method", match=STORE + ',method=~"BeginTurn|CommitTurn"'),
        ),
        Panel(
            "Errors",
            "Calls that did not end as OK, by their code.",
            "reqps",
            (
                (
                    rate(
                        f"{RPCS}_count",
                        "code",
                        match=STORE + ',code!="OK"',
                    ),
                    "{{code}}",
                ),
            ),
        ),
        Panel(
            "Conflicts",
            "What the store refused because the state was another, by the error.",
            "reqps",
            ((rate("antiphon_store_conflicts_total", "error"), "{{error}}"),),
        ),
        Panel(
            "Streams open",
            "Followers of event logs and waiting calls.",
            "short",
            ((total("antiphon_rpc_streams_open", "method", match=STORE), "{{method}}"),),
        ),
        Panel("Swept", "Records removed.", "ops", ((rate("antiphon_store_swept_total", "pod"), "{{pod}}"),)),
    ),
    "engine": (
        Panel(
            "Endpoints",
            "1: generations are sent to it.",
            "short",
            ((total("antiphon_engine_endpoint_up", "model", "endpoint", how="min"), "{{model}} {{endpoint}}"),),
        ),
        Panel(
            "Generations in flight",
            "By endpoint.",
            "short",
            ((total("antiphon_engine_endpoint_in_flight", "model", "endpoint"), "{{model}} {{endpoint}}"),),
        ),
        Panel(
            "First output",
            "The engine's queue and prefill.",
            "s",
            quantiles("antiphon_engine_first_output_seconds", "model"),
        ),
        Panel(
            "Engine queue",
            "Until the engine began with a prompt, as the engine measures it.",
            "s",
            quantiles("antiphon_engine_queue_seconds", "model"),
        ),
        Panel(
            "Prefill",
            "Reading the part of a prompt that was not cached, as the engine measures it.",
            "s",
            quantiles("antiphon_engine_prefill_seconds", "model"),
        ),
        Panel(
            "Tokens",
            "By model and type.",
            "ops",
            ((rate("antiphon_tokens_total", "model", "type"), "{{model}} {{type}}"),),
        ),
        Panel(
            "Errors",
            "Generations that an endpoint failed.",
            "reqps",
            ((rate("antiphon_engine_errors_total", "model", "endpoint", "error"), "{{model}} {{endpoint}} {{error}}"),),
        ),
        Panel(
            "Left out, gone on elsewhere",
            "Endpoints that were left out, and generations that another went on with.",
            "reqps",
            (
                (
                    rate("antiphon_engine_endpoint_evictions_total", "model", "endpoint"),
                    "left out: {{model}} {{endpoint}}",
                ),
                (rate("antiphon_engine_migrations_total", "model"), "gone on: {{model}}"),
            ),
        ),
        Panel(
            "Placements",
            "Generations by where they went: kept at the endpoint that holds their prompt, moved, or new (root).",
            "reqps",
            ((rate("antiphon_placement_total", "model", "outcome"), "{{outcome}}: {{model}}"),),
        ),
        Panel(
            "Prefill rate of endpoints",
            "Tokens of prompts in a second, as measured.",
            "short",
            (
                (
                    total("antiphon_endpoint_prefill_tokens_per_second", "model", "endpoint", how="avg"),
                    "{{model}} {{endpoint}}",
                ),
            ),
        ),
        Panel(
            "KV caches",
            "Tokens in use and at most, as the servers report them.",
            "short",
            (
                (
                    total("antiphon_endpoint_kv_tokens", "model", "endpoint", "state", how="max"),
                    "{{state}}: {{model}} {{endpoint}}",
                ),
            ),
        ),
        Panel(
            "Prompt cache",
            "Tokens of prompts: cached by the engine, lost though an earlier turn had put them there, or new.",
            "short",
            ((rate("antiphon_cache_tokens_total", "model", "kind"), "{{kind}}: {{model}}"),),
        ),
        Panel(
            "Lost tokens",
            "By cause: another endpoint, a restart, an eviction, another salt, less than a block.",
            "short",
            ((rate("antiphon_cache_lost_tokens_total", "model", "cause"), "{{cause}}: {{model}}"),),
        ),
        Panel(
            "Lineages",
            "What prompts got from earlier turns: lineages by their outcome, and ids that a model wrote.",
            "short",
            (
                (rate("antiphon_lineage_total", "outcome"), "{{outcome}}"),
                (rate("antiphon_spliced_tokens_total"), "spliced ids"),
            ),
        ),
        Panel("Prompts", "Until the token ids are there.", "s", quantiles("antiphon_prompt_duration_seconds", "model")),
    ),
}


def main() -> int:
    FOLDER.mkdir(exist_ok=True)
    for name, panels in DASHBOARDS.items():
        (FOLDER / f"{name}.json").write_text(text(name, panels), encoding="utf-8")
    return 0


def text(name: str, panels: tuple[Panel, ...]) -> str:
    """One dashboard as Grafana reads it."""
    document = {
        "uid": f"antiphon-{name}",
        "title": f"Antiphon: {name}",
        "tags": ["antiphon"],
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": list(_variables())},
        "panels": [_panel(index, panel) for index, panel in enumerate(panels)],
    }
    return json.dumps(document, indent=1) + "\n"


def _variables() -> Iterator[Json]:
    yield {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}
    yield {
        "name": "namespace",
        "label": "Namespace",
        "type": "query",
        "datasource": _datasource(),
        "query": "label_values(antiphon_build_info, namespace)",
        "includeAll": True,
        "allValue": ".*",
        "multi": True,
        "refresh": 2,
    }


def _panel(index: int, panel: Panel) -> Json:
    return {
        "id": index + 1,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.meaning,
        "datasource": _datasource(),
        "gridPos": {"h": HEIGHT, "w": WIDTH, "x": WIDTH * (index % COLUMNS), "y": HEIGHT * (index // COLUMNS)},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + place), "expr": expression, "legendFormat": legend, "datasource": _datasource()}
            for place, (expression, legend) in enumerate(panel.queries)
        ],
    }


def _datasource() -> Json:
    return {"type": "prometheus", "uid": "${datasource}"}


if __name__ == "__main__":
    raise SystemExit(main())
