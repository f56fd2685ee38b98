"""Compares the console's vendored libraries with the npm packages, byte for byte, and the list of hashes and
licences."""

from __future__ import annotations

from tests.support.console.vendored import FILES, LICENCES, LIST, PACKAGES, VENDOR, listing


def test_vendored_files_and_licences_match_the_npm_packages() -> None:
    for name, (package, path) in FILES.items():
        assert (VENDOR / name).read_bytes() == (PACKAGES / package / path).read_bytes(), name
    for name, package in LICENCES.items():
        assert (VENDOR / f"LICENSE.{name}").read_bytes() == (PACKAGES / package / "LICENSE").read_bytes(), name


def test_the_list_names_all_vendored_files() -> None:
    assert LIST.read_text("utf-8") == listing()
    assert {path.name for path in VENDOR.glob("*.js")} == set(FILES)
