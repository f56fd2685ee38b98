from __future__ import annotations

import gzip
import shutil
from pathlib import Path

from antiphon_edge.console.assets import LIBRARIES, ROOT, SCRIPT, assets, read
from antiphon_edge.console.page import page

TRANSFER_BYTES_MAX = 64_000


def test_the_version_changes_with_any_source(tmp_path: Path) -> None:
    shutil.copytree(ROOT, tmp_path, dirs_exist_ok=True)
    versions = [read(tmp_path).version, read(tmp_path).version]
    for name in ("app/strings.js", "style/tree.css", "vendor/htm.js", "icon.svg"):
        source = tmp_path / name
        source.write_text(source.read_text("utf-8") + "\n;\n", "utf-8")
        versions.append(read(tmp_path).version)
    assert versions[0] == versions[1] == assets().version
    assert len(set(versions)) == 5


def test_libraries_are_sent_as_they_are_and_nothing_else_is_sent() -> None:
    files = assets().files
    assert set(files) == {SCRIPT, "style.css", "icon.svg", *LIBRARIES.values()}
    for path in LIBRARIES.values():
        assert files[path].body == (ROOT / path).read_bytes() == gzip.decompress(files[path].compressed)


def test_compressed_console_stays_within_its_size_limit() -> None:
    made = page(assets(), trace_url="")
    sizes = {name: len(asset.compressed) for name, asset in assets().files.items()}
    total = sum(sizes.values()) + len(gzip.compress(made.body))
    print(f"\nthe console: {total:,} bytes in all, compressed, of {TRANSFER_BYTES_MAX:,}: {sizes}")
    assert total <= TRANSFER_BYTES_MAX
