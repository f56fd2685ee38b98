from __future__ import annotations

from antiphon_core.rpc.roles import ALL_ROLES, Role, list_roles


def test_roles_are_listed_in_the_order_of_their_declaration() -> None:
    assert list_roles({Role.OPERATOR, Role.READER}) == "reader, operator"
    assert list_roles(ALL_ROLES) == "reader, writer, gateway, operator"
