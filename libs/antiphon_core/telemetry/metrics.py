"""All instruments: names, labels and buckets. docs/reference/metrics.md is generated from this module.

Every label has few values: kinds, codes, routes, and the models and endpoints of the profiles. No label has an id or
other content of a request. Only the two instruments of `tenants.py`, which a setting turns on, have the tenant.
"""

from __future__ import annotations

from typing import Any

from antiphon_core.telemetry.instruments import Declaration, Instrument, counter, gauge, histogram

EDGE, WORKER, TRANSLATOR, STORE, TOOLS = "edge", "worker", "translator", "store", "tools"
ALL = (EDGE, WORKER, TRANSLATOR, STORE, TOOLS)
TURNS = (EDGE, WORKER)

# Bounds of buckets, in seconds. Turns have those of OpenTelemetry's gen_ai.server.request.duration, and longer ones.
# The first token and the time between tokens have vLLM's, and shorter ones: Antiphon's own overhead is 1 to 5 ms.
TURN_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 60, 120, 300, 600, 1800)
FIRST_TOKEN_S = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 60)
INTER_TOKEN_S = (0.001, 0.0025, 0.005, 0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1, 2.5)
RPC_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60)
LAG_S = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
WAIT_S = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)

# ---- HTTP ----

HTTP_REQUESTS = counter(
    "antiphon_http_requests_total",
    "HTTP requests that were answered, by the route that served them; the route of a path that does not exist is "
    "'other'. The code is 499 if the client disconnected before its answer began.",
    targets=[EDGE],
    labels=("method", "route", "code"),
)
HTTP_DURATION = histogram(
    "antiphon_http_request_duration_seconds",
    "Time from the head of a request to the end of its answer; for a stream, the time that it was open.",
    targets=[EDGE],
    labels=("method", "route"),
    buckets=TURN_S,
)
STREAMS_OPEN = gauge(
    "antiphon_streams_open",
    "Streams that are open now: sse or websocket.",
    targets=[EDGE],
    labels=("kind",),
)
STREAMS_CUT = counter(
    "antiphon_streams_cut_total",
    "Streams that ended before their last event: the client disconnected (client_left), or did not read for "
    "edge.write_timeout_s (slow_reader).",
    targets=[EDGE],
    labels=("reason",),
)
STREAM_SLOTS = gauge(
    "antiphon_stream_slots_in_use",
    "Stream slots that are held now by all tenants of this edge together; always 0 without edge.streams_per_tenant.",
    targets=[EDGE],
)
ADMISSION_REJECTED = counter(
    "antiphon_admission_rejected_total",
    "Requests that were rejected, by the limit that was reached: requests, tokens, streams, share, long or "
    "readers (429); turns, lag or memory of the process (503).",
    targets=[EDGE],
    labels=("limit",),
)
MEMORY_RETURNED = counter(
    "antiphon_memory_returned_total",
    "How often free memory was returned to the system because the process was short of memory, by step: trim, and "
    "collection, which stops the process for 0.1 s for each million objects.",
    targets=TURNS,
    labels=("step",),
)

CONNECTIONS_LIMITED = counter(
    "antiphon_connections_limited_total",
    "New connections beyond the limit of one peer or of the process: an idle connection was closed for it (shed), or "
    "the new one was closed (rejected).",
    targets=[EDGE],
    labels=("limit", "outcome"),
)
BYTES_REJECTED = counter(
    "antiphon_request_bytes_rejected_total",
    "Requests, messages and turns that were rejected, because all unfinished heads or bodies, or running turns, "
    "together, or those of one peer or tenant, reached their limit in bytes; and histories that a WebSocket did not "
    "keep for that reason.",
    targets=[EDGE, TRANSLATOR],
    labels=("kind", "limit"),
)

# ---- Turns ----

UNKNOWN_EVENTS = counter(
    "antiphon_unknown_events_total",
    "Events of types that this release does not know: those of a newer service during an upgrade. They are passed on.",
    targets=[EDGE, WORKER],
)

TURNS_IN_FLIGHT = gauge(
    "antiphon_turns_in_flight",
    "Turns that run now, by how they are delivered: to a caller that waits, under an idempotency key (keyed), or in "
    "the background. Use this metric to scale edges, workers and translators.",
    targets=TURNS,
    labels=("delivery",),
)
TURN_DURATION = histogram(
    "antiphon_turn_duration_seconds",
    "Time from the acceptance of a turn to its terminal event, the commit included. A turn that produced no event has "
    "the status 'rejected' and no model.",
    targets=TURNS,
    labels=("delivery", "model", "status"),
    buckets=TURN_S,
)
TURN_FAILURES = counter(
    "antiphon_turn_failures_total",
    "Turns that ended as failed, by the error that ended them.",
    targets=TURNS,
    labels=("delivery", "error"),
)
TURN_FAILURES_ANSWERED = counter(
    "antiphon_turn_failures_answered_total",
    "Failed turns without a stream: their requests were answered with 5xx, so antiphon_http_requests_total has them, "
    "too.",
    targets=[EDGE],
)
FIRST_TOKEN = histogram(
    "antiphon_time_to_first_token_seconds",
    "Time from the acceptance of a turn to the first batch with output. For a background turn it begins when a worker "
    "claims the job; the time in the queue is antiphon_job_wait_seconds.",
    targets=TURNS,
    labels=("delivery", "model"),
    buckets=FIRST_TOKEN_S,
)
INTER_TOKEN = histogram(
    "antiphon_inter_token_seconds",
    "Time between two batches of output of one turn. Tokens that arrive in one read are one batch.",
    targets=TURNS,
    labels=("model",),
    buckets=INTER_TOKEN_S,
)
TURN_START = histogram(
    "antiphon_turn_start_seconds",
    "Time to accept a turn, before the translator is called: history, idempotency key, and waiting for the session's "
    "lease.",
    targets=[EDGE],
    buckets=RPC_S,
)
COMMIT = histogram(
    "antiphon_commit_duration_seconds",
    "Time to commit the record of a turn, retries included: ok, conflict, or failed. The terminal event is sent after "
    "the commit.",
    targets=TURNS,
    labels=("outcome",),
    buckets=RPC_S,
)
REPLAYS = counter(
    "antiphon_replays_total",
    "Streams that replayed stored events: of a repeated request with an idempotency key (idempotent), or of "
    "GET /v1/responses/{id}?stream=true (retrieved).",
    targets=[EDGE],
    labels=("reason",),
)
TAKEOVERS = counter(
    "antiphon_takeovers_total",
    "Turns that were continued after the loss of a process: an edge took over a keyed turn (edge), a worker another "
    "worker's job (worker), or a translator a stream (translator).",
    targets=TURNS,
    labels=("kind",),
)
LOST_TOOL_CALLS = counter(
    "antiphon_lost_tool_calls_total",
    "Calls of tools that a lost process may have sent. Their outcome is unknown, and they were not sent again.",
    targets=TURNS,
)
EVENT_LOG_LAG = histogram(
    "antiphon_event_log_lag_seconds",
    "Time from the moment at which an event is ready until it is in the event log, where readers at other replicas "
    "see it.",
    targets=TURNS,
    buckets=RPC_S,
)

# ---- Background jobs ----

JOBS_ENQUEUED = counter("antiphon_jobs_enqueued_total", "Background responses that were queued.", targets=[EDGE])
JOB_ATTEMPTS = counter(
    "antiphon_job_attempts_total",
    "Attempts of workers at background responses, by outcome: succeeded, cancelled, or retry, postponed and waited, "
    "after which another attempt follows.",
    targets=[WORKER],
    labels=("outcome",),
)
JOB_WAIT = histogram(
    "antiphon_job_wait_seconds",
    "Time that a background response waited in the queue before its first attempt.",
    targets=[WORKER],
    buckets=WAIT_S,
)
JOB_QUEUE_DEPTH = gauge(
    "antiphon_job_queue_depth",
    "Background responses that are due and wait for a worker, 1,000 at most, counted every store.queue_watch_s. All "
    "replicas of the store report the same queue: take the maximum, not the sum.",
    targets=[STORE],
)
JOB_QUEUE_AGE = gauge(
    "antiphon_job_queue_oldest_seconds",
    "Time for which the first background response in the queue has been due; 0 if none waits. Take the maximum over "
    "the replicas of the store.",
    targets=[STORE],
)
WORKER_SLOTS = gauge(
    "antiphon_worker_slots", "Background responses that this worker can run at once.", targets=[WORKER]
)
WORKER_SLOTS_BUSY = gauge(
    "antiphon_worker_slots_busy", "Background responses that this worker runs now.", targets=[WORKER]
)

# ---- Models and engines ----

TOKENS = counter(
    "antiphon_tokens_total",
    "Tokens in the usage of turns that ended: input, cached (the part of input that the engine had cached, where it "
    "reports that), output, reasoning (a part of output).",
    targets=[TRANSLATOR],
    labels=("model", "type"),
)
FORMAT_MISMATCHES = counter(
    "antiphon_format_mismatches_total",
    "Completed answers that do not match the format of their request (text.format).",
    targets=[TRANSLATOR],
    labels=("model",),
)
FORMAT_UNCHECKED = counter(
    "antiphon_format_unchecked_total",
    "Completed answers that were not compared with their format, because that would take too long.",
    targets=[TRANSLATOR],
    labels=("model",),
)
PROMPT = histogram(
    "antiphon_prompt_duration_seconds",
    "Time to build the prompt of a turn: conversation, template, token ids.",
    targets=[TRANSLATOR],
    labels=("model",),
    buckets=RPC_S,
)
GENERATIONS_IN_FLIGHT = gauge(
    "antiphon_generations_in_flight",
    "Turns that an engine generates now.",
    targets=[TRANSLATOR],
    labels=("model",),
)
ENGINE_DURATION = histogram(
    "antiphon_engine_duration_seconds",
    "Time that one generation took at the engine: ok, cancelled, or failed.",
    targets=[TRANSLATOR],
    labels=("model", "outcome"),
    buckets=TURN_S,
)
ENGINE_FIRST_OUTPUT = histogram(
    "antiphon_engine_first_output_seconds",
    "Time from the request to the engine to its first output: the engine's queue and its prefill.",
    targets=[TRANSLATOR],
    labels=("model",),
    buckets=FIRST_TOKEN_S,
)
ENGINE_QUEUE = histogram(
    "antiphon_engine_queue_seconds",
    "Time that the turn waited in the engine's queue, where the engine measures it: the token-level models of "
    "TensorRT-LLM and of antiphon triton-models.",
    targets=[TRANSLATOR],
    labels=("model",),
    buckets=FIRST_TOKEN_S,
)
ENGINE_PREFILL = histogram(
    "antiphon_engine_prefill_seconds",
    "Time in which the engine read the part of the prompt that it had not cached, where the engine measures it.",
    targets=[TRANSLATOR],
    labels=("model",),
    buckets=FIRST_TOKEN_S,
)
ENGINE_ERRORS = counter(
    "antiphon_engine_errors_total",
    "Generations that failed at an endpoint, by the error; another endpoint may have continued them.",
    targets=[TRANSLATOR],
    labels=("model", "endpoint", "error"),
)
ENGINE_UNREAD = counter(
    "antiphon_engine_unread_total",
    "Parts of an engine's stream that could not be read and were skipped, because nothing of the answer was lost with "
    "them: event, choices, delta, content, tool_calls, usage, logprobs, or a finish_reason that is not known. The log "
    "has the first one of each kind.",
    targets=[TRANSLATOR],
    labels=("model", "part"),
)
UNREAD_OUTPUT = counter(
    "antiphon_unread_output_total",
    "Outputs that began a call and did not become one, by what became of them: an incomplete call (call), a text "
    "(text), or nothing, because they were noise between the markers of calls (noise), markers alone (markers), or "
    "calls that the tool choice rules out (tool_choice).",
    targets=[TRANSLATOR],
    labels=("family", "cause"),
)
CACHE_TOKENS = counter(
    "antiphon_cache_tokens_total",
    "Tokens of prompts whose engine reports what it had cached: those (cached), those that it had computed for an "
    "earlier turn of the chain and computed again (lost), and all others (new). An engine that caches blocks loses up "
    "to one block in each turn.",
    targets=[TRANSLATOR],
    labels=("model", "kind"),
)
LOST_TOKENS = counter(
    "antiphon_cache_lost_tokens_total",
    "Tokens that were lost (antiphon_cache_tokens_total), by cause: the prompt went to another endpoint "
    "(other_replica), the endpoint restarted (restarted) or made room (evicted), the salt changed (salt), they are "
    "fewer than a block has (block), or the cause is not known (unknown).",
    targets=[TRANSLATOR],
    labels=("model", "cause"),
)
LINEAGES = counter(
    "antiphon_lineage_total",
    "Lineages of earlier turns and rounds that prompts were made with, by outcome: the prompt begins with that of the "
    "earlier turn (held) or does not (differs), the lineage is of another model or damaged (foreign), or there is none "
    "(missing).",
    targets=[TRANSLATOR],
    labels=("outcome",),
)
RECOVERED_LINEAGES = counter(
    "antiphon_lineage_recovered_total",
    "Searches for the turn that a request continues without naming it, because its client resends the conversation: "
    "its lineage was found, there is none (absent), or the store did not answer in time (failed).",
    targets=[EDGE],
    labels=("outcome",),
)
SPLICED_TOKENS = counter(
    "antiphon_spliced_tokens_total",
    "Token ids that a model wrote and that a later prompt got without encoding their text.",
    targets=[TRANSLATOR],
)
PLACEMENTS = counter(
    "antiphon_placement_total",
    "Generations of models with several endpoints, by where they went: to the endpoint whose KV cache holds most of "
    "the prompt (kept), to another one because that one was busy (moved_load) or not in use (moved_dead), or as the "
    "first of a conversation, of which no endpoint is known to hold anything (root).",
    targets=[TRANSLATOR],
    labels=("model", "outcome"),
)
ENDPOINT_PREFILL_RATE = gauge(
    "antiphon_endpoint_prefill_tokens_per_second",
    "Tokens of a prompt that this endpoint reads in a second, as this translator has measured.",
    targets=[TRANSLATOR],
    labels=("model", "endpoint"),
)
ENDPOINT_WAITING = gauge(
    "antiphon_endpoint_waiting_requests",
    "Requests that wait at this endpoint, as its own metrics say, for models with several endpoints.",
    targets=[TRANSLATOR],
    labels=("model", "endpoint"),
)
ENDPOINT_KV_TOKENS = gauge(
    "antiphon_endpoint_kv_tokens",
    "Tokens of this endpoint's KV cache, as its own metrics say, for models with several endpoints: all that it can "
    "hold (max) and those in use (used).",
    targets=[TRANSLATOR],
    labels=("model", "endpoint", "state"),
)
LOAD_POLLS = counter(
    "antiphon_endpoint_load_polls_total",
    "Readings of an endpoint's own metrics, by outcome: ok or failed.",
    targets=[TRANSLATOR],
    labels=("model", "endpoint", "outcome"),
)
ENGINE_UP = gauge(
    "antiphon_engine_endpoint_up",
    "1 if generations are sent to this endpoint, 0 while it is evicted because of failures.",
    targets=[TRANSLATOR],
    labels=("model", "endpoint"),
)
ENGINE_IN_FLIGHT = gauge(
    "antiphon_engine_endpoint_in_flight",
    "Generations of this translator that run on this endpoint now.",
    targets=[TRANSLATOR],
    labels=("model", "endpoint"),
)
ENGINE_EVICTIONS = counter(
    "antiphon_engine_endpoint_evictions_total",
    "Evictions of this endpoint because of failures.",
    targets=[TRANSLATOR],
    labels=("model", "endpoint"),
)
ENGINE_MIGRATIONS = counter(
    "antiphon_engine_migrations_total",
    "Generations that another endpoint continued in mid-stream.",
    targets=[TRANSLATOR],
    labels=("model",),
)
CACHE_HINTS = counter(
    "antiphon_cache_hints_total",
    "Hints about how long an engine's KV cache keeps a prompt: low (a one-shot request, or prompt_cache_options.mode "
    "explicit), retain (a lifetime that the client asks for), pin (a pinned system message). The outcome is sent, "
    "unsupported (the engine takes no priorities of blocks; the hint was left out) or over_share (more than "
    "retained_tokens_per_tenant in the model's profile; the lifetime was left out).",
    targets=[TRANSLATOR],
    labels=("model", "hint", "outcome"),
)
PREWARMS = counter(
    "antiphon_prewarms_total",
    "Prompts of coming turns that were to be read in advance (prewarm_tokens_per_minute in the model's profile): read; "
    "busy (other prompts waited at the endpoint, or turns hold turns_bytes_max), cancelled (the turn came, another one "
    "needed the memory, or the translator stopped), over_share "
    "(the tenant has used its tokens of the minute), failed.",
    targets=[TRANSLATOR],
    labels=("model", "outcome"),
)
PROMPT_CACHE_EVICTIONS = counter(
    "antiphon_prompt_cache_evictions_total",
    "Token ids of prompt prefixes that were evicted because the cache was full.",
    targets=[TRANSLATOR],
)

# ---- RPCs and the store ----

RPC_SERVER = histogram(
    "antiphon_rpc_server_duration_seconds",
    "Time to serve a unary RPC, by its gRPC status code. It includes the time for which ClaimJob, AcquireSession and "
    "BeginTurn wait.",
    targets=[STORE, TRANSLATOR],
    labels=("service", "method", "code"),
    buckets=RPC_S,
)
RPC_CLIENT = histogram(
    "antiphon_rpc_client_duration_seconds",
    "Time of one attempt at a unary RPC, at its caller.",
    targets=TURNS,
    labels=("service", "method", "code"),
    buckets=RPC_S,
)
SECRETS_UNUSABLE = gauge(
    "antiphon_secrets_unusable",
    "1 while a file of secrets is unusable (missing, empty, malformed, or open to other users), by the setting that "
    "names the file. After secrets_grace_s requests that need it are rejected.",
    targets=ALL,
    labels=("setting",),
)
RPC_REJECTED = counter(
    "antiphon_rpc_rejected_total",
    "RPCs that were rejected by the server's limits, by the limit that was reached: bytes (all requests that are "
    "received or handled), caller_bytes or calls (those of one caller), answer_bytes (all answers that are not sent "
    "yet) or caller_answer_bytes (those for one caller).",
    targets=[TRANSLATOR, STORE],
    labels=("limit",),
)
RPC_STREAMS = gauge(
    "antiphon_rpc_streams_open",
    "Streaming RPCs that this process serves now.",
    targets=[STORE, TRANSLATOR],
    labels=("service", "method"),
)
STORE_CONFLICTS = counter(
    "antiphon_store_conflicts_total",
    "RPCs that the store rejected because the state was not the expected one, by the error: StaleFence is a holder "
    "that lost its lease, SessionLocked a second turn in one conversation.",
    targets=[STORE],
    labels=("method", "error"),
)
STORE_SWEPT = counter(
    "antiphon_store_swept_total",
    "Responses, event logs, jobs and conversations that cleanup removed because they had expired or were deleted.",
    targets=[STORE],
)

# ---- Tools ----

TOOL_CALLS = counter(
    "antiphon_tool_calls_total",
    "Calls of tools that ended, by outcome: ok, tool_error, protocol_error, http_error, refused and not_sent, of which "
    "the last two were not sent, or unknown. The server is the operator's name of it, or 'client' for all servers that "
    "requests name by URL.",
    targets=[TOOLS],
    labels=("server", "outcome"),
)
TOOL_CALL_DURATION = histogram(
    "antiphon_tool_call_duration_seconds",
    "Time of a call of a tool, with the wait for the tenant's other calls.",
    targets=[TOOLS],
    labels=("server",),
    buckets=WAIT_S,
)
TOOL_LISTING_DURATION = histogram(
    "antiphon_tool_listing_duration_seconds",
    "Time to list the tools of a server. Cached listings are those that were remembered.",
    targets=[TOOLS],
    labels=("server", "cached"),
    buckets=WAIT_S,
)
TOOL_DEFINITION_CHANGES = counter(
    "antiphon_tool_definition_changes_total",
    "Tools whose server listed them with another description, schema or annotations than before.",
    targets=[TOOLS],
    labels=("server",),
)
TOOL_RESULT_BYTES = counter(
    "antiphon_tool_result_bytes_total",
    "Text and images of results, as the model gets them.",
    targets=[TOOLS],
    labels=("server",),
)

# ---- The process ----

LOOP_LAG = histogram(
    "antiphon_event_loop_lag_seconds",
    "Lag of the event loop: how late it ran a timer that is due ten times a second. It delays all requests of the "
    "process.",
    targets=ALL,
    buckets=LAG_S,
)
LOOP_LAG_MAX = gauge(
    "antiphon_event_loop_lag_recent_max_seconds",
    "The longest lag of the event loop in the last ten seconds.",
    targets=ALL,
)
LOG_LINES_LOST = counter(
    "antiphon_log_lines_lost_total",
    "Lines for standard output or standard error that could not be written: the disk is full, the pipe is closed, or "
    "its reader does not read. The process goes on without them.",
    targets=ALL,
)
AUDIT_LINES_LOST = counter(
    "antiphon_audit_lines_lost_total",
    "Lines that could not be written to the audit log. With log.audit_required the requests of lines about a start "
    "were rejected.",
    targets=[EDGE, TRANSLATOR, STORE, TOOLS],
)
BUILD = gauge("antiphon_build_info", "Always 1, with the version.", targets=ALL, labels=("version",))

# ---- Tenants: only with metrics.tenants (tenants.py) ----

TENANT_TURNS = counter(
    "antiphon_tenant_turns_total",
    "Turns that ended, by tenant. Only with metrics.tenants; the tenants beyond that number are 'other'.",
    targets=TURNS,
    labels=("tenant", "status"),
)
TENANT_TOKENS = counter(
    "antiphon_tenant_tokens_total",
    "Tokens of turns that ended, by tenant: input or output. Only with metrics.tenants.",
    targets=TURNS,
    labels=("tenant", "type"),
)

INSTRUMENTS: tuple[Instrument[Any], ...] = tuple(
    found for found in list(globals().values()) if isinstance(found, Instrument)
)
"""All of them, in the order of their declaration."""


def declarations() -> tuple[Declaration, ...]:
    return tuple(instrument.declaration for instrument in INSTRUMENTS)
