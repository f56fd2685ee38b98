from __future__ import annotations

from antiphon_core.rpc.roles import ALL_ROLES, Role, listed


def test_roles_are_listed_in_the_order_of_their_declaration() -> None:
    assert listed({Role.OPERATOR, Role.READER}) == "reader, operator"
    assert listed(ALL_ROLES) == "reader, writer, gateway, operator"
