"""Log probabilities in the API: how a request asks for them, and their form in a response.

A response has log probabilities when `include` has `message.output_text.logprobs`; `top_logprobs` alone adds none, as
with OpenAI. A request is rejected when the controls of its engine lack them. When an engine has the control and leaves
them out all the same, the response does not fail: it comes without them.
"""

from __future__ import annotations

from collections.abc import Iterable

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object
from antiphon_core.request.body import OUTPUT_LOGPROBS, Parameters
from antiphon_translator.parsing.segments import Candidate, ScoredToken

LEFT_OUT = "the engine left out the log probabilities that it was asked for; the answer goes on without them"
"""A log line."""
LOWEST = -9999.0
"""The least log probability in a response, as with OpenAI: JSON cannot express minus infinity."""


def wanted(parameters: Parameters, controls: frozenset[str]) -> int | None:
    """How many alternatives of each token are wanted; None for no log probabilities at all.

    InvalidRequest: the engine, which has these controls, cannot give them.
    """
    if OUTPUT_LOGPROBS not in (parameters.include or ()):
        return None
    if "logprobs" not in controls:
        raise _unsupported("include", "'include': this model's engine gives no log probabilities.")
    count = parameters.top_logprobs or 0
    if count and "top_logprobs" not in controls:
        raise _unsupported(
            "top_logprobs",
            "'top_logprobs' must be 0 with this model: its engine gives the log probabilities of the tokens that were "
            "chosen, and none of their alternatives.",
        )
    return count


def as_objects(tokens: Iterable[ScoredToken]) -> list[Object]:
    """Tokens as members of `logprobs`. Each has `top_logprobs`, even if empty, as Open Responses requires."""
    return [_as_object(token) | {"top_logprobs": [_as_object(other) for other in token.top]} for token in tokens]


def _as_object(token: ScoredToken | Candidate) -> Object:
    """One token. An incomplete character becomes U+FFFD in `token`; `bytes` are exact."""
    return {
        "token": token.written.decode("utf-8", "replace"),
        "logprob": token.logprob if token.logprob > LOWEST else LOWEST,  # NaN compares false, so it becomes LOWEST, too
        "bytes": list(token.written),
    }


def _unsupported(field: str, what: str) -> InvalidRequest:
    return InvalidRequest(f"Unsupported parameter: {what}", field=field, code="unsupported_parameter")
