from __future__ import annotations

import re

from antiphon_core.jsons import loads
from antiphon_edge.console.assets import LIBRARIES, assets, integrity
from antiphon_edge.console.page import page


def test_the_policy_allows_nothing_unsafe_and_the_one_inline_script_by_its_hash() -> None:
    made = page(assets(), trace_url="")
    policy = made.headers["Content-Security-Policy"]
    inline = re.findall(rb"<script type=\"importmap\">(.*?)</script>", made.body)
    assert "default-src 'self'" in policy
    assert "unsafe" not in policy
    assert [f"'{integrity(text)}'" in policy for text in inline] == [True]
    assert not re.search(rb"<style|\sstyle=|\son\w+=", made.body)


def test_every_path_in_the_page_is_relative_and_names_an_asset() -> None:
    made = page(assets(), trace_url="")
    paths = re.findall(r'(?:href|src)="([^"]+)"', made.body.decode())
    imports = loads(re.findall(rb"<script type=\"importmap\">(.*?)</script>", made.body)[0])["imports"]
    assert set(imports) == set(LIBRARIES)
    prefix = f"console/{assets().version}/"
    for path in [*paths, *(each.removeprefix("./") for each in imports.values())]:
        assert path.removeprefix(prefix) in assets().files, path


def test_the_address_of_traces_is_escaped() -> None:
    made = page(assets(), trace_url='https://t.example/{trace_id}?a="><script>')
    assert b'content="https://t.example/{trace_id}?a=&quot;&gt;&lt;script&gt;"' in made.body
