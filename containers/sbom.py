"""The bill of materials of an image, as SPDX 2.3: its Python packages, and the Debian packages of its base."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib.metadata import Distribution, distributions
from pathlib import Path

Package = dict[str, object]

ROOT = "antiphon-server"


def document_text(packages: Sequence[Path], debian: Path, *, created_s: int) -> str:
    """The document as JSON. The same content gives the same text, whenever it is written."""
    found = [*python_packages(packages), *debian_packages(debian)]
    digest = hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()
    root = next(package["SPDXID"] for package in found if package["name"] == ROOT)
    relations = [_relation("SPDXRef-DOCUMENT", "DESCRIBES", root)]
    relations += [_relation(root, "DEPENDS_ON", package["SPDXID"]) for package in found if package["SPDXID"] != root]
    document = {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": ROOT,
        "documentNamespace": f"https://spdx.org/spdxdocs/{ROOT}-{digest}",
        "creationInfo": {
            "created": datetime.fromtimestamp(created_s, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "creators": [f"Tool: {ROOT}-containers-sbom"],
        },
        "packages": found,
        "relationships": relations,
    }
    return json.dumps(document, indent=1)


def python_packages(folders: Sequence[Path]) -> Iterator[Package]:
    """The distributions that are installed in these folders, by name."""
    for one in sorted(distributions(path=[str(folder) for folder in folders]), key=_name):
        licence = one.metadata.get("License-Expression") or "NOASSERTION"
        yield _package(_name(one), one.version, f"pkg:pypi/{_name(one)}@{one.version}", licence)


def debian_packages(folder: Path) -> Iterator[Package]:
    """Those of dpkg's `status`, or of `status.d`, which images without dpkg have."""
    listed = [folder / "status", *(folder / "status.d").glob("*")]
    texts = [path.read_text(encoding="utf-8") for path in listed if path.is_file() and path.suffix != ".md5sums"]
    stanzas = {stanza for text in texts for stanza in re.split(r"\n\s*\n", text) if stanza.strip()}
    found = sorted((_field(stanza, "Package"), _field(stanza, "Version")) for stanza in stanzas)
    for name, version in found:
        yield _package(name, version, f"pkg:deb/debian/{name}@{version}", "NOASSERTION")


def _package(name: str, version: str, purl: str, licence: str) -> Package:
    reference = {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": purl}
    return {
        "SPDXID": "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", purl.removeprefix("pkg:").partition("@")[0]),
        "name": name,
        "versionInfo": version,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": licence,
        "copyrightText": "NOASSERTION",
        "externalRefs": [reference],
    }


def _relation(start: object, kind: str, end: object) -> dict[str, object]:
    return {"spdxElementId": start, "relationshipType": kind, "relatedSpdxElement": end}


def _name(one: Distribution) -> str:
    return re.sub(r"[-_.]+", "-", one.metadata["Name"]).lower()


def _field(stanza: str, name: str) -> str:
    match = re.search(rf"^{name}: (.*)$", stanza, re.MULTILINE)
    if match is None:
        raise ValueError(f"a package without {name}: {stanza[:80]}")
    return match[1]
