"""Detects whether a chat template takes a message's content as a list of parts or as one text.

A template that takes a list loops over it. So the syntax tree is searched for a loop over an attribute or key named
`content`: directly, through filters, through variables that were set to it, or through a macro's parameter.
"""

from __future__ import annotations

from collections.abc import Iterator

from jinja2 import nodes


def loops_over_content(tree: nodes.Template) -> bool:
    """Whether the template loops over the parts of a message's content."""
    aliases: set[str] = set()
    while found := set(_aliases(tree, aliases)) - aliases:
        aliases |= found
    return any(_is_content(loop.iter, aliases) for loop in tree.find_all(nodes.For))


def _is_content(expression: nodes.Node | None, aliases: set[str]) -> bool:
    match expression:
        case nodes.Filter(node=inner):
            return _is_content(inner, aliases)
        case nodes.Getattr(attr="content"):
            return True
        case nodes.Getitem(arg=nodes.Const(value="content")):
            return True
        case nodes.Name(name=name):
            return name in aliases
    return False


def _aliases(tree: nodes.Template, known: set[str]) -> Iterator[str]:
    """Names that hold a message's content because of an assignment, or of a call that passes it to a macro."""
    for assignment in tree.find_all(nodes.Assign):
        if isinstance(assignment.target, nodes.Name) and _is_content(assignment.node, known):
            yield assignment.target.name
    macros = {macro.name: macro for macro in tree.find_all(nodes.Macro)}
    for call in tree.find_all(nodes.Call):
        macro = macros.get(call.node.name) if isinstance(call.node, nodes.Name) else None
        if macro is None:
            continue
        parameters = [parameter.name for parameter in macro.args]
        passed = [*zip(parameters, call.args, strict=False), *((word.key, word.value) for word in call.kwargs)]
        yield from (name for name, value in passed if _is_content(value, known))
