from __future__ import annotations

import pytest

from antiphon_core.rpc.methods import STORE, TRANSLATOR
from antiphon_core.rpc.services import Api, Row, make_service

(SERVICE,) = TRANSLATOR.services
ROWS = [method.row for method in SERVICE.methods.values()]


def test_a_method_is_its_row_and_its_descriptor() -> None:
    method = make_service(SERVICE.descriptor, ROWS).methods["Generate"]
    assert method.path == "/antiphon.translator.v1.TranslatorService/Generate"
    assert method.is_streaming
    assert (method.request.name, method.response.name) == ("GenerateRequest", "GenerateResponse")
    assert method.deadline_s is None


def test_paths_have_the_service_of_the_method() -> None:
    assert STORE.methods["GetChain"].path == "/antiphon.store.v1.Trees/GetChain"
    assert STORE.methods["Sweep"].path == "/antiphon.store.internal.v1.Retention/Sweep"


def test_a_row_without_a_method_is_refused() -> None:
    with pytest.raises(TypeError, match="Dance"):
        make_service(SERVICE.descriptor, [*ROWS, Row("Dance", print, frozenset(), 1)])


def test_a_method_without_a_row_is_refused() -> None:
    with pytest.raises(TypeError, match="Generate"):
        make_service(SERVICE.descriptor, ROWS[1:])


def test_two_methods_of_one_name_are_refused() -> None:
    with pytest.raises(TypeError, match="the same name"):
        Api([SERVICE, SERVICE])
