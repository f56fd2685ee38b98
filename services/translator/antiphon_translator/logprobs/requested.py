"""Log probabilities in the API: how a request asks for them, and their form in a response.

A response has log probabilities if `include` has `message.output_text.logprobs`; `top_logprobs` alone adds none, as in
OpenAI's API. A request for log probabilities is rejected if its engine does not have this control. An engine that has
the control may still leave them out; then the response has no log probabilities, and does not fail.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object
from antiphon_core.request.body import OUTPUT_LOGPROBS, Parameters
from antiphon_translator.parsing.segments import Candidate, ScoredToken

LEFT_OUT = "the engine left out the log probabilities that it was asked for; the answer goes on without them"
"""The log line for an engine that has the control and does not apply it."""
LOWEST = -9999.0
"""The lowest log probability in a response, the same as OpenAI's: JSON cannot express minus infinity."""


def alternatives_of(parameters: Parameters, controls: frozenset[str]) -> int | None:
    """The number of alternatives of each token that a request wants; None if it wants no log probabilities.

    InvalidRequest: the engine cannot give them; `controls` are those that it has.
    """
    if OUTPUT_LOGPROBS not in (parameters.include or ()):
        return None
    if "logprobs" not in controls:
        raise _unsupported_error("include", "'include': this model's engine gives no log probabilities.")
    count = parameters.top_logprobs or 0
    if count and "top_logprobs" not in controls:
        raise _unsupported_error(
            "top_logprobs",
            "'top_logprobs' must be 0 with this model: its engine gives the log probabilities of the chosen tokens, "
            "and not those of alternatives.",
        )
    return count


def as_objects(tokens: Iterable[ScoredToken]) -> list[Object]:
    """The elements of `logprobs` for tokens. Each has `top_logprobs`, even if empty, as Open Responses requires."""
    return [_as_object(token) | {"top_logprobs": [_as_object(other) for other in token.top]} for token in tokens]


def _as_object(token: ScoredToken | Candidate) -> Object:
    """One token. An incomplete character becomes U+FFFD in `token`; `bytes` are exact."""
    return {
        "token": token.written.decode("utf-8", "replace"),
        "logprob": token.logprob if LOWEST < token.logprob < inf else LOWEST,  # NaN compares false
        "bytes": list(token.written),
    }


def _unsupported_error(field: str, what: str) -> InvalidRequest:
    return InvalidRequest(f"Unsupported parameter: {what}", field=field, code="unsupported_parameter")
