"""Log probabilities as clients ask for them, and as they see them.

They are in a response when `include` has `message.output_text.logprobs`; `top_logprobs` alone adds nothing, as with
OpenAI. What is asked for and cannot be given is refused. An engine that accepts the request and gives none does not
fail the response: the answer comes without them.
"""

from __future__ import annotations

from collections.abc import Iterable

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object
from antiphon_core.request.body import OUTPUT_LOGPROBS, Parameters
from antiphon_translator.parsing.segments import Candidate, ScoredToken

LEFT_OUT = "the engine left out the log probabilities that it was asked for; the answer goes on without them"
LOWEST = -9999.0
"""OpenAI's number for a token that could hardly be chosen; JSON has none for minus infinity."""


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
    """Tokens as members of `logprobs`, in the full form that Open Responses asks for everywhere."""
    return [_as_object(token) | {"top_logprobs": [_as_object(other) for other in token.top]} for token in tokens]


def _as_object(token: ScoredToken | Candidate) -> Object:
    """A part of a character is U+FFFD in `token`; `bytes` are exact."""
    return {
        "token": token.written.decode("utf-8", "replace"),
        "logprob": token.logprob if token.logprob > LOWEST else LOWEST,  # NaN compares false, so it becomes LOWEST, too
        "bytes": list(token.written),
    }


def _unsupported(field: str, what: str) -> InvalidRequest:
    return InvalidRequest(f"Unsupported parameter: {what}", field=field, code="unsupported_parameter")
