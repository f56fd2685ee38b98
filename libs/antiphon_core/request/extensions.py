"""The extension `nvext`, with the parameters that NVIDIA's own frontends have.

https://docs.nvidia.com/dynamo/additional-resources/nvidia-request-extensions-nvext
"""

from __future__ import annotations

from typing import Annotated

from pydantic import AliasChoices, Field

from antiphon_core import limits
from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object
from antiphon_core.request.lengths import AtMost
from antiphon_core.request.models import Exact

StopTexts = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=limits.STOP_TEXT_CHARS_MAX)]],
    AtMost(limits.STOP_TEXTS_ITEMS_MAX),
]


Seed = Annotated[int, Field(ge=0, le=2**32 - 1)]
"""A seed of 32 bits, which every engine accepts."""
TopK = Annotated[int, Field(ge=-1, le=2**31 - 1)]
"""A number of tokens in 32 bits with a sign, as Triton takes it."""


class Extensions(Exact):
    """Parameters of sampling and guided decoding that OpenAI does not have. `greed_sampling` is an alias of `greedy`.

    At most one of the members `guided_*` may be given. It constrains the whole answer to a JSON schema, a regular
    expression, a grammar in EBNF, or one of several texts.
    """

    top_k: TopK | None = None
    """The number of most likely tokens to sample from; -1 and 0 are all tokens."""
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    """The minimum probability of tokens to sample from, as a fraction of that of the most likely token."""
    repetition_penalty: Annotated[float, Field(gt=0, le=2)] | None = None
    """A factor above 1 makes tokens less likely that were generated before; 1 has no effect."""
    greedy: Annotated[bool | None, Field(validation_alias=AliasChoices("greedy", "greed_sampling"))] = None
    """Always takes the most likely token: temperature 0, whatever `temperature` is."""
    ignore_eos: bool | None = None
    """Ignores the end-of-sequence token, so that only the length limit ends the answer."""
    guided_json: Object | None = None
    """The whole answer is JSON of this schema."""
    guided_regex: Annotated[str, Field(min_length=1, max_length=limits.GUIDE_CHARS_MAX)] | None = None
    """The whole answer matches this regular expression."""
    guided_grammar: Annotated[str, Field(min_length=1, max_length=limits.GUIDE_CHARS_MAX)] | None = None
    """The whole answer is a text of this grammar, in EBNF."""
    guided_choice: Annotated[list[str], Field(min_length=1), AtMost(limits.GUIDE_CHOICES_ITEMS_MAX)] | None = None
    """The whole answer is one of these texts."""

    @property
    def guides(self) -> list[str]:
        """The names of the given members `guided_*`."""
        return [name for name in _GUIDES if getattr(self, name) is not None]

    def sampling(self) -> Object:
        """The given sampling parameters, by their names in chat completions."""
        given: Object = {name: getattr(self, name) for name in _SAMPLING if getattr(self, name) is not None}
        if self.greedy:
            given["temperature"] = 0.0
        if given.get("top_k") == -1:
            given["top_k"] = 0
        return given

    def require_one_guide(self, others: list[str]) -> None:
        """Raises InvalidRequest if more than one parameter constrains the answer. `others` are those outside nvext."""
        given = [*others, *(f"nvext.{name}" for name in self.guides)]
        if len(given) > 1:
            named = " and ".join(f"'{each}'" for each in given)
            raise InvalidRequest(f"{named} exclude each other.", code="mutually_exclusive_parameters")


_SAMPLING = ("top_k", "min_p", "repetition_penalty")
_GUIDES = ("guided_json", "guided_regex", "guided_grammar", "guided_choice")
