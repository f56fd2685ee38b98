"""Every RPC is documented."""

from __future__ import annotations

from antiphon_core.rpc.methods import SERVICES


def test_the_method_table_is_that_of_the_descriptors() -> None:
    for service in SERVICES:
        declared = {method.name: method.server_streaming for method in service.descriptor.methods}
        assert {name: method.streams for name, method in service.methods.items()} == declared
