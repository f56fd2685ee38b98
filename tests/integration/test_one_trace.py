"""One request is one trace, over edge, translator, engine and store, each in its own process: a real trace server has
all spans with the right parents, and no span, page, log or metric has content of the prompt."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from antiphon_core.telemetry.spans import ATTRIBUTES
from tests.support.howto import blocks
from tests.support.phoenix.exported import spans_of
from tests.support.traced_requests import (
    FAILED,
    METADATA,
    OVER_HTTP,
    PARENT_ID,
    PROMPT,
    QUEUED,
    STREAMED,
    WORD,
    Story,
    tell,
)

PAGE = Path(__file__).parents[2] / "docs/howto/observe.md"
CLIENT = f"({PARENT_ID}) > edge SERVER POST /v1/responses"


def below(turn: str, process: str) -> list[str]:
    """The paths of a turn's spans, in a process that runs turns."""
    generate = f"{turn} > {process} CLIENT Generate"
    chat = f"{generate} > translator SERVER Generate > translator INTERNAL chat m"
    commit = f"{turn} > {process} CLIENT CommitTurn"
    return [
        turn,
        generate,
        f"{generate} > translator SERVER Generate",
        chat,
        f"{chat} > translator INTERNAL build prompt",
        f"{chat} > translator CLIENT chat m",
        commit,
        f"{commit} > store SERVER CommitTurn",
    ]


ATTACHED = Counter(
    [
        CLIENT,
        f"{CLIENT} > edge CLIENT BeginTurn",
        f"{CLIENT} > edge CLIENT BeginTurn > store SERVER BeginTurn",
        *below(f"{CLIENT} > edge INTERNAL turn", "edge"),
    ]
)


def documented_settings() -> Iterator[dict[str, str]]:
    """The environment variables of the page's blocks about a trace server."""
    for block in blocks(PAGE):
        exported = re.findall(r"^export (.+?)(?: +#.*)?$", block.text, re.MULTILINE)
        if exported:
            yield dict(word.split("=", 1) for line in exported for word in line.split())


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    of_server, of_antiphon = documented_settings()
    of_antiphon |= {"OTEL_BSP_SCHEDULE_DELAY": "50"}
    return asyncio.run(tell(tmp_path_factory.mktemp("traced"), of_server, of_antiphon))


def paths(spans: Iterable[tuple[str, str, str]]) -> dict[str, str]:
    """The path of each span from the root, by its id. A span is its id, its parent's id and its label."""
    by_id = {span_id: (parent_id, label) for span_id, parent_id, label in spans}

    def path(span_id: str) -> str:
        parent_id, label = by_id[span_id]
        if parent_id in by_id:
            return f"{path(parent_id)} > {label}"
        return f"({parent_id}) > {label}" if parent_id else label

    return {span_id: path(span_id) for span_id in by_id}


def short(name: str) -> str:
    """The name of an RPC without its service."""
    return re.sub(r"^antiphon\.\S+/", "", name)


def exported_tree(story: Story, trace_id: str) -> dict[str, str]:
    return paths(
        (span.span_id, span.parent_id, f"{span.service.removeprefix('antiphon-')} {span.kind} {short(span.name)}")
        for span in story.spans(trace_id)
    )


def shown_spans(story: Story, trace_id: str) -> list[dict[str, Any]]:
    return [span for span in story.shown if span["context"]["trace_id"] == trace_id]


def shown_tree(story: Story, trace_id: str) -> dict[str, str]:
    return paths(
        (span["context"]["span_id"], span["parent_id"], short(span["name"])) for span in shown_spans(story, trace_id)
    )


def names_only(path: str) -> str:
    return re.sub(r"\b(edge|translator|store|worker) [A-Z]+ ", "", path)


def places(story: Story, text: str) -> set[str]:
    """The outputs in which a text was found."""
    return {place for place, found in story.left.items() if text.encode() in found}


def test_one_request_is_one_trace_over_all_services(story: Story) -> None:
    assert WORD in story.answers.stored.body.decode()
    tree = exported_tree(story, STREAMED)
    assert Counter(tree.values()) == ATTACHED
    assert shown_tree(story, STREAMED) == {span_id: names_only(path) for span_id, path in tree.items()}
    assert {span["status_code"] for span in shown_spans(story, STREAMED)} == {"UNSET"}


def test_the_server_counts_the_tokens_of_a_trace(story: Story) -> None:
    usage = story.answers.stored.json["usage"]
    (trace,) = (trace for trace in story.traces if trace["trace_id"] == STREAMED)
    assert (trace["token_count_prompt"], trace["token_count_completion"]) == (
        usage["input_tokens"],
        usage["output_tokens"],
    )


def test_the_engine_call_carries_the_trace_context(story: Story) -> None:
    (engine,) = (span for span in story.spans(STREAMED) if (span.kind, span.name) == ("CLIENT", "chat m"))
    assert engine.attributes["server.address"] == story.triton.endpoint
    (asked,) = (asked for asked in story.triton.metadata if STREAMED in asked.get("traceparent", ""))
    assert asked["traceparent"] == f"00-{STREAMED}-{engine.span_id}-01"
    assert (asked["tracestate"], asked["x-request-id"]) == ("vendor=1", "req-aaaa")


def test_a_background_response_stays_in_the_trace_of_its_request(story: Story) -> None:
    assert story.answers.queued.events[-1]["type"] == "response.completed"
    (job,) = (span for span in story.spans(QUEUED) if span.name == "process responses")
    assert job.attributes["antiphon.job.attempt"] == 1
    tree = exported_tree(story, QUEUED)
    path = f"{CLIENT} > worker CONSUMER process responses"
    assert tree[job.span_id] == path
    assert set(below(f"{path} > worker INTERNAL turn", "worker")) <= set(tree.values())
    assert shown_tree(story, QUEUED) == {span_id: names_only(path) for span_id, path in tree.items()}


def test_a_span_arrives_over_http(story: Story) -> None:
    assert list(shown_tree(story, OVER_HTTP).values()) == [f"({PARENT_ID}) > over HTTP"]


def test_traces_logs_and_metrics_contain_no_content(story: Story) -> None:
    assert {name for span in spans_of(story.exported) for name in span.attributes} <= ATTRIBUTES
    assert places(story, story.answers.stored.json["id"]) == {"exported", "pages", "kept", "logs"}
    for canary in (PROMPT, WORD, METADATA):
        assert not places(story, canary)


def test_logs_and_metrics_of_every_service_have_the_request_ids(story: Story) -> None:
    assert story.answers.failed.status >= 500
    lines = [line for line in story.logged if line.get("request_id") == f"req-{FAILED[:4]}"]
    of_response = [line for line in lines if str(line.get("response_id", "")).startswith("resp_")]
    assert {str(line["logger"]).partition(".")[0] for line in of_response} >= {"antiphon_edge", "antiphon_translator"}
    assert {line["trace_id"] for line in lines} == {FAILED}
    exemplars = [line for line in story.left["metrics"].decode().splitlines() if f'trace_id="{FAILED}"' in line]
    assert {line.partition("{")[0] for line in exemplars} >= {
        "antiphon_http_request_duration_seconds_bucket",
        "antiphon_turn_duration_seconds_bucket",
    }
