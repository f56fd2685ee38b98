"""The words that routers before fleets of model servers understand: one row for each, and how a request uses it.

An endpoint of a profile may be such a router, which chooses the server itself. Two things help it to find the KV cache:

* A *session key*, equal for all turns of one tree, or of one `prompt_cache_key`. It is an HMAC: no id leaves Antiphon.
* A *token* that the router returned with an earlier turn and takes back. It is opaque, and kept as the second part of
  a placement (placement.py). SMG names its worker, too, but a request that names one has to run there, however busy it
  is: that name is kept, and not sent.

The names are those of the routers' sources: llm-d's EPP (2026), Dynamo 1.5, SGLang's gateway (SMG) 1.13, trtllm-serve
and SGLang of 2026 (docs/adr/0195-words-of-fleet-routers.md).
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass

from antiphon_translator.engines.base import Deliver
from antiphon_translator.engines.placed_delivery import PlacedDelivery
from antiphon_translator.generation import GenerationRequest
from antiphon_translator.placement import endpoint_of, placement_of, routed_to

_SESSION_DIGITS = 32
_TOKEN = re.compile(r"[!-~]{1,200}")
"""The part of a router's answer that is kept and sent again: printable ASCII, which no header can be split with."""


@dataclass(frozen=True, slots=True)
class FleetRouter:
    """The headers of one kind of router, and the members of a body; an empty name is not used. `token_header` is sent,
    `placed_header` is read."""

    session_header: str = ""
    session_member: str = ""
    token_header: str = ""
    placed_header: str = ""

    @property
    def takes_sessions(self) -> bool:
        return bool(self.session_header or self.session_member)


NO_ROUTER = "none"
ROUTERS: Mapping[str, FleetRouter] = {
    NO_ROUTER: FleetRouter(),
    "llm_d": FleetRouter(token_header="x-session-token", placed_header="x-session-token"),  # noqa: S106 - names
    "dynamo": FleetRouter(session_header="X-Dynamo-Session-ID"),
    "smg": FleetRouter(session_header="x-smg-routing-key", placed_header="x-smg-routed-worker-id"),
    "trtllm_serve": FleetRouter(session_header="x-session-id"),
    "sglang": FleetRouter(session_member="session_id"),
}
"""The names that `router` can have in a profile."""


@dataclass(frozen=True, slots=True)
class Route:
    """The part of one request that its router reads."""

    router: FleetRouter
    headers: Mapping[str, str]
    members: Mapping[str, str]

    @classmethod
    def of(cls, router: FleetRouter, request: GenerationRequest, endpoint: str, secret: bytes) -> Route:
        """`endpoint` is the router's address in the profile; `secret` is the key of session keys."""
        headers, members = dict[str, str](), dict[str, str]()
        session = session_key(request, secret) if router.takes_sessions else ""
        if session and router.session_header:
            headers[router.session_header] = session
        if session and router.session_member:
            members[router.session_member] = session
        if router.token_header and (token := _latest_token(request, endpoint)):
            headers[router.token_header] = token
        return cls(router, headers, members)

    def with_placement(self, answer: Mapping[str, str], deliver: Deliver) -> Deliver:
        """`deliver`, with the router's answer as the placement of the first chunk. `answer` are the headers of the
        response."""
        where = answer.get(self.router.placed_header, "") if self.router.placed_header else ""
        return PlacedDelivery(deliver, lambda _: where) if _TOKEN.fullmatch(where) else deliver


NO_ROUTE = Route(FleetRouter(), {}, {})


def session_key(request: GenerationRequest, secret: bytes) -> str:
    """The session key of a request, equal for all translators with this secret. The client's own key comes first:
    responses that are not stored have a tree each. Empty: the request has neither."""
    if request.cache_key:
        name = f"key/{request.cache_key}"
    elif request.conversation:
        name = f"tree/{request.conversation}"
    else:
        return ""
    return hmac.new(secret, name.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()[:_SESSION_DIGITS]


def _latest_token(request: GenerationRequest, endpoint: str) -> str:
    """The router's token of the longest beginning of the prompt; empty if it returned none."""
    own = placement_of(endpoint)
    hints = [hint for hint in request.placement if endpoint_of(hint.endpoint) == own]
    longest = max(hints, key=lambda hint: hint.tokens, default=None)
    token = routed_to(longest.endpoint) if longest is not None else ""
    return token if _TOKEN.fullmatch(token) else ""
