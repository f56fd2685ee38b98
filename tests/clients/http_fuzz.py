"""Fuzzes a scripted system with requests that schemathesis makes from the server's own OpenAPI document.

    python -m tests.clients.http_fuzz 10000

sends that many valid and invalid requests to all operations. No answer may be a 5xx, or have a status or a form that
the document does not declare. Most ids exist and most requests name a served model: other requests are rejected too
early to test much.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import requests
import schemathesis
import schemathesis.specs.openapi.schemas  # not while servers run: Python 3.11 parses in one thread at a time
from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis import seed as with_seed
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.support.scripted_system import MODEL, scripted_system_in_a_thread

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
HEAVY = frozenset({"createResponse", "createChatCompletion", "addItems", "createConversation"})
"""Operations with a larger share of the requests: their bodies are the most complex."""
SHARE = 5
TIMEOUT_S = 30


@dataclass
class Fuzz:
    """A run against one server."""

    url: str
    ids: Mapping[str, Sequence[str]]
    """Existing ids, by the first word of the paths that take them."""
    asked: Counter[tuple[str, int]] = field(default_factory=Counter)
    """How often an operation was answered with a status."""

    def run(self, cases: int, *, seed: int = 0) -> None:
        """Raises the failure that schemathesis finds, with a curl line for it. Deletions come last."""
        schema = schemathesis.openapi.from_url(self.url + "/openapi.json")
        operations = [result.ok() for result in schema.get_all_operations() if isinstance(result, Ok)]
        operations.sort(key=lambda operation: operation.method == "delete")
        shares = {each.label: SHARE if self._name(each) in HEAVY else 1 for each in operations}
        for operation in operations:
            count = max(2, cases * shares[operation.label] // sum(shares.values()))
            for mode in self._modes(operation):
                self._fuzz(operation, mode, max(1, count // 2), seed)

    @staticmethod
    def _modes(operation: Any) -> Sequence[GenerationMode]:
        """Returns positive mode only for operations that take nothing but ids: an id may be any text, so schemathesis
        would look for an invalid one in hundreds of attempts."""
        takes_more = any(map(len, (operation.body, operation.query, operation.headers)))
        return (GenerationMode.POSITIVE, GenerationMode.NEGATIVE) if takes_more else (GenerationMode.POSITIVE,)

    def _fuzz(self, operation: Any, mode: GenerationMode, count: int, seed: int) -> None:
        strategy = operation.as_strategy(generation_mode=mode)
        name = self._name(operation)

        @with_seed(seed)
        @settings(
            max_examples=count,
            deadline=None,
            database=None,
            derandomize=False,
            phases=[Phase.generate, Phase.shrink],
            verbosity=Verbosity.quiet,
            suppress_health_check=list(HealthCheck),
        )
        @given(case=strategy, real=st.data())
        def ask(case: Case[Any], real: st.DataObject) -> None:
            self._make_real(case, real.draw)
            answer = case.call(base_url=self.url, timeout=TIMEOUT_S)
            self.asked[name, answer.status_code] += 1
            case.validate_response(answer, checks=CHECKS)

        ask()

    def _make_real(self, case: Case[Any], draw: Callable[[Any], Any]) -> None:
        mostly = st.sampled_from([True, True, True, False])
        words = case.path.strip("/").split("/")
        known = self.ids.get(words[1] if len(words) > 1 else "", ())
        if case.path_parameters and known and draw(mostly):
            case.path_parameters["id"] = draw(st.sampled_from(known))
        if isinstance(case.body, dict) and "model" in case.body and draw(mostly):
            case.body["model"] = MODEL
        if isinstance(case.body, dict) and "previous_response_id" in case.body and draw(mostly):
            case.body["previous_response_id"] = draw(st.sampled_from(self.ids["responses"]))
            case.body.pop("conversation", None)

    @staticmethod
    def _name(operation: Any) -> str:
        name: str = operation.definition.raw["operationId"]
        return name


def known_ids(url: str) -> dict[str, list[str]]:
    """Creates some responses that continue each other, conversations and a prompt. Returns their ids."""
    first = _post(url, "/v1/responses", {"model": MODEL, "input": "Hi"})
    second = _post(url, "/v1/responses", {"model": MODEL, "input": "And?", "previous_response_id": first})
    background = _post(url, "/v1/responses", {"model": MODEL, "input": "Hi", "background": True})
    talks = [_post(url, "/v1/conversations", {"items": [{"role": "user", "content": "Hi"}]}) for _ in range(3)]
    prompt = _post(url, "/v1/prompts", {"instructions": "Say {{word}}."})
    ids = {"responses": [first, second, background], "prompts": [prompt], "models": [MODEL]}
    return ids | {"conversations": talks, "sessions": talks}


def _post(url: str, path: str, body: Mapping[str, Any]) -> str:
    made = requests.post(url + path, json=dict(body), timeout=TIMEOUT_S)
    made.raise_for_status()
    made_id: str = made.json()["id"]
    return made_id


def run(cases: int, *, seed: int = 0) -> Counter[tuple[str, int]]:
    """Sends so many requests to a fresh system. Returns how often each operation was answered with each status."""
    with scripted_system_in_a_thread() as url:
        fuzz = Fuzz(url, known_ids(url))
        while fuzz.asked.total() < cases:  # some operations have fewer different requests than their share
            fuzz.run(cases - fuzz.asked.total(), seed=seed)
            fuzz.ids, seed = known_ids(url), seed + 1
    return fuzz.asked


if __name__ == "__main__":
    told = run(*map(int, sys.argv[1:2] or ["10000"]), seed=int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    for (name, status), count in sorted(told.items()):
        print(f"{name:24} {status} {count:6}")
    print(f"{sum(told.values())} cases, no 5xx")
