from __future__ import annotations

import pytest

from antiphon_store.backends import named_queries

TEXT = """-- What is before the first name belongs to none.

-- name: one
-- A comment.
SELECT 1
-- Another.
WHERE true;

-- name: two
SELECT 2;
"""


def test_statements_are_found_by_name_without_comments() -> None:
    assert named_queries.parse(TEXT) == {"one": "SELECT 1\nWHERE true;", "two": "SELECT 2;"}


def test_a_statement_name_used_twice_is_rejected() -> None:
    with pytest.raises(ValueError, match="one statement"):
        named_queries.parse(TEXT + TEXT)


def test_the_statements_of_a_package_are_loaded_from_its_file() -> None:
    assert "server_facts" in named_queries.load("antiphon_store.backends.postgres")
