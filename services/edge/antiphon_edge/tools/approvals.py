"""Approvals of calls: which calls need one, the answers in an input, and the calls that were approved.

Operator and request both have a rule, and the stricter one counts (`needs_approval`). A request for an approval is an
item of the response that ends with it; what it is bound to is stored beside the response (`draft_of`): the identity of
the server with its URL, the tool with the digest of its definition, and the bytes of the arguments. The items in an
input of a client shape the prompt only: calls are made from what was stored.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from antiphon_core import damage
from antiphon_core.errors import ApprovalNotFound, InvalidRequest, ToolServerFault
from antiphon_core.ids import DerivedIds, is_approval_id, item_tag, new_item_id, tree_tag
from antiphon_core.items import ID_PREFIX
from antiphon_core.jsons import Object, dumps, loads
from antiphon_core.limits import APPROVALS_ITEMS_MAX
from antiphon_core.ports import tools as tools_port
from antiphon_core.ports.store import Approval, ApprovalAnswer, ApprovalDraft
from antiphon_core.ports.translator import ServerTool
from antiphon_core.request.body import CreateRequest
from antiphon_core.request.server_items import CALL, LISTING, REQUEST, RESPONSE
from antiphon_core.request.server_tools import ApprovalFilter, McpTool
from antiphon_edge.tools.server_lists import ServerList

_BETWEEN = frozenset({REQUEST, LISTING})
"""Items of a model that may stand behind an answer in the input of a client that sends everything again."""
_MODELS_TYPES = ("_call", "reasoning", "_list_tools")


def needs_approval(declared: McpTool, operators: tools_port.Approval, tool: tools_port.Tool) -> bool:
    """Whether calls of a tool need an approval. Without a rule of the request they do, unless the operator says that
    calls of the server never do."""
    if operators is tools_port.Approval.ALWAYS:
        return True
    match declared.require_approval:
        case None:
            return operators is not tools_port.Approval.NEVER
        case ApprovalFilter() as rule:
            return _is_filtered(rule, tool)
        case word:
            return word == "always"


def _is_filtered(rule: ApprovalFilter, tool: tools_port.Tool) -> bool:
    """Whether the filters of a request want an approval: they do, unless only `never` selects the tool."""
    is_always, is_never = (
        each is not None and each.selects(tool.name, is_read_only=tool.is_read_only)
        for each in (rule.always, rule.never)
    )
    return is_always or not is_never


def tools_that_ask(lists: Mapping[str, ServerList]) -> list[ServerTool]:
    """The tools whose calls need an approval."""
    return [
        ServerTool(label, tool.name)
        for label, each in lists.items()
        for tool in each.tools.values()
        if needs_approval(each.declared.tool, each.listing.approval, tool)
    ]


def way_without(server: ServerList) -> str:
    """The end of a sentence that says how a request avoids approvals, if the operator lets it."""
    if server.listing.approval is tools_port.Approval.ALWAYS:
        return ", because the operator requires it"
    return f", or set '{server.declared.path}.require_approval' to 'never'"


# ---- The answers ----


def answers_in(items: Sequence[Object]) -> list[ApprovalAnswer]:
    """The answers that an input gives. Those before an item of the model are history: clients that send everything
    again repeat them. So are those to requests in the input that another service made. InvalidRequest: two answers are
    to one request."""
    answers: dict[str, ApprovalAnswer] = {}
    for item in reversed(items):
        kind = item.get("type")
        if kind == RESPONSE:
            approval_id = item["approval_request_id"]
            if approval_id in answers:
                message = f"The input answers the approval request '{approval_id}' twice."
                raise InvalidRequest(message, field="input", code="invalid_value")
            answers[approval_id] = ApprovalAnswer(approval_id, is_approved=item["approve"] is True)
        elif _is_of_model(item, kind):
            break
    given = {item.get("id") for item in items if item.get("type") == REQUEST} if answers else ()
    return [each for each in reversed(answers.values()) if is_approval_id(each.id) or each.id not in given]


def _is_of_model(item: Object, kind: Any) -> bool:
    if kind in _BETWEEN:
        return False
    return item.get("role") == "assistant" or (isinstance(kind, str) and kind.endswith(_MODELS_TYPES))


def require_answerable(
    answers: Collection[ApprovalAnswer],
    items: Sequence[Object],
    *,
    response_id: str,
    has_history: bool,
    is_stored: bool,
) -> None:
    """Checks the answers of a request before they are looked up. `response_id` is that of the new response. Without a
    history, the input has the requests.

    ApprovalNotFound: an id is none of this server. InvalidRequest: the input repeats a request that the history has, or
    lacks one; there are too many answers; the request is not stored; the answers are to requests of another history."""
    given = {item.get("id"): item for item in items if item.get("type") == REQUEST}
    for each in answers:
        if not is_approval_id(each.id):
            raise ApprovalNotFound.of(each.id)
        if has_history and each.id in given:
            message = f"Duplicate item found with id {each.id}. Leave it out: the request continues its response."
            raise InvalidRequest(message, field="input", code="invalid_value")
        if not has_history and each.id not in given:
            message = (
                f"The input has no approval request '{each.id}'. Continue the response that asks for the approval, "
                "with 'previous_response_id' or 'conversation'."
            )
            raise InvalidRequest(message, field="input", code="approval_not_in_history")
    if len(answers) > APPROVALS_ITEMS_MAX:
        message = (
            f"The input answers {len(answers)} approval requests; at most {APPROVALS_ITEMS_MAX} are answered at once."
        )
        raise InvalidRequest(message, field="input", code="array_above_max_length")
    if not is_stored:
        message = "An approval is used once, so its response must be stored: leave 'store' out."
        raise InvalidRequest(message, field="store", code="invalid_value")
    for each in answers:
        if item_tag(each.id) != tree_tag(response_id):
            message = f"The approval request '{each.id}' is not in the history of this request."
            raise InvalidRequest(message, field="input", code="approval_not_in_history")


def require_callable(answers: Collection[ApprovalAnswer], request: CreateRequest) -> None:
    """InvalidRequest: the calls that are approved cannot run, because the request declares no tool server, or has no
    output. So the approvals are not used up."""
    if not any(each.is_approved for each in answers):
        return
    options = request.prompt_cache_options
    if options is not None and options.prewarm:
        message = "The input approves a call, and a response with 'prewarm' runs none: send them in two requests."
        raise InvalidRequest(message, field="prompt_cache_options.prewarm", code="mutually_exclusive_parameters")
    if not any(isinstance(tool, McpTool) for tool in request.tools or ()):
        message = "The input approves a call, and the request declares no tool server: declare it again in 'tools'."
        raise InvalidRequest(message, field="tools", code="invalid_value")


def tree_of(answers: Sequence[ApprovalAnswer]) -> str | None:
    """The tag of the tree that answers belong to; None without answers."""
    return item_tag(answers[0].id) if answers else None


def require_unchanged(taken: Iterable[Approval], items: Sequence[Object]) -> None:
    """InvalidRequest: a request in the input of a client is another one than was stored."""
    given = {item.get("id"): item for item in items if item.get("type") == REQUEST}
    for each in taken:
        item, content = given.get(each.id), AskedCall.read(each)
        if item is not None and (item["name"], item["arguments"]) != (content.name, content.arguments):
            message = f"The approval request '{each.id}' in the input is not the one that this server sent."
            raise InvalidRequest(message, field="input", code="invalid_value")


# ---- The calls ----


@dataclass(frozen=True, slots=True)
class AskedCall:
    """A call that waits for an approval, and what the approval is bound to. `identity` is that of the server with its
    URL; `label` is its name in the request that asked."""

    approval_id: str
    label: str
    identity: str
    name: str
    digest: str
    arguments: str
    is_sent: bool = False

    @classmethod
    def read(cls, stored: Approval) -> AskedCall:
        """The call of a stored approval. DataDamaged."""
        with damage.reading(f"approval '{stored.id}'"):
            facts: Object = loads(stored.content)
            names = ("server_label", "identity", "name", "digest", "arguments")
            label, identity, name, digest, arguments = (str(facts[member]) for member in names)
        return cls(stored.id, label, identity, name, digest, arguments, stored.is_sent)

    def server_among(self, lists: Mapping[str, ServerList]) -> ServerList | None:
        """The server of the call, by its identity. A server that gave no list has none, and is found by its label."""
        for each in lists.values():
            if each.listing.identity == self.identity:
                return each
        named = lists.get(self.label)
        return named if named is not None and named.error else None

    def is_changed(self, server: ServerList) -> bool:
        """Whether the tool has another definition than the one that was approved. Of a call that may have been sent it
        does not count: the call must not be asked for again."""
        tool = server.tools.get(self.name)
        return tool is not None and tool.digest != self.digest and not self.is_sent


def draft_of(item: Object, server: ServerList) -> ApprovalDraft:
    """The approval that an item asks for."""
    facts = {
        "server_label": item["server_label"],
        "identity": server.listing.identity,
        "name": item["name"],
        "digest": server.tools[item["name"]].digest,
        "arguments": item["arguments"],
    }
    return ApprovalDraft(item["id"], dumps(facts))


def drafts_of(output: Iterable[Object], lists: Mapping[str, ServerList]) -> list[ApprovalDraft]:
    """The approvals that an output asks for. A tool that its server does not have any more cannot be approved."""
    asked = [(item, lists.get(item["server_label"])) for item in output if item.get("type") == REQUEST]
    return [draft_of(item, server) for item, server in asked if server is not None and item["name"] in server.tools]


def first_items(
    approved: Iterable[Approval], lists: Mapping[str, ServerList], response_id: str, *, calls_max: int
) -> list[Object]:
    """The items of approved calls before the first round: the call, or a new request if its tool has changed since.
    Nothing is used up yet, so a call that cannot be sent raises, unless it may have been sent before.

    Raises:
        InvalidRequest: the request does not declare the server of a call, does not allow its tool, or allows fewer
            calls than are approved.
        ToolServerFault: the server of a call gave no list of its tools.
    """
    ids = DerivedIds(f"{response_id}/approvals")
    items = [_first_item(AskedCall.read(each), lists, ids, response_id) for each in approved]
    calls = sum(item["type"] == CALL for item in items)
    if calls > calls_max:
        message = f"The input approves {calls} calls, and the response may run {calls_max} ('max_tool_calls')."
        raise InvalidRequest(message, field="max_tool_calls", code="invalid_value")
    return items


def ids_in(calls: Iterable[Object]) -> list[str]:
    """The ids of the approvals of calls."""
    return [item["approval_request_id"] for item in calls if item.get("approval_request_id")]


def is_sent(call: Object, taken: Iterable[Approval]) -> bool:
    """Whether the call of one of these approvals may have been sent before they were held."""
    return any(each.is_sent and each.id == call.get("approval_request_id") for each in taken)


def _require_sendable(call: AskedCall, server: ServerList) -> None:
    """ToolServerFault: the server gave no list of its tools. InvalidRequest: the request does not allow the tool."""
    if server.error:
        message = f"The approved call of '{call.name}' was not run: '{call.label}' gave no list of its tools."
        raise ToolServerFault(f"{message} {server.error}", field="tools")
    if call.name not in server.tools:
        message = f"The approved call was not run: '{call.label}' has no tool '{call.name}' that the request allows."
        raise InvalidRequest(message, field=server.declared.path, code="invalid_value")


def _first_item(call: AskedCall, lists: Mapping[str, ServerList], ids: DerivedIds, response_id: str) -> Object:
    server = call.server_among(lists)
    if server is None:
        message = (
            f"The approved call of '{call.name}' is for the server '{call.label}', which the request does not declare. "
            "Declare it again in 'tools', with its credentials."
        )
        raise InvalidRequest(message, field="tools", code="invalid_value")
    if not call.is_sent:  # otherwise its outcome is unknown, whatever the server says now
        _require_sendable(call, server)
    kind = REQUEST if call.is_changed(server) else CALL
    item: Object = {"id": new_item_id(ids, ID_PREFIX[kind], relative=response_id), "type": kind}
    named = {"server_label": server.declared.label, "name": call.name, "arguments": call.arguments}
    if kind == REQUEST:
        return item | named
    waits = {"status": "in_progress", "output": None, "error": None, "approval_request_id": call.approval_id}
    return item | waits | named
