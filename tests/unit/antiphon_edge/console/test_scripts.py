from __future__ import annotations

import pytest

from antiphon_edge.console.scripts import link

MAIN = """/**
 * What it is.
 * @import { A } from "./types"
 */
import lib from "lib";
import { one as two, three } from "./a.js";
import * as b from "./folder/b.js";
import "./effect.js";

// a line
export const sum = two + /** @type {number} */ (three) + b.four;
if (sum) {
  lib(sum);
}
"""
MODULES = {
    "main.js": MAIN,
    "a.js": 'export const one = 1;\nexport function three() {\n  return "/* kept */ // kept";\n}\n',
    "folder/b.js": 'import { one } from "../a.js";\nexport async function* four() {}\nexport class Five {}\n',
    "effect.js": "globalThis.done = true;\n",
}


def test_each_module_is_a_function_in_the_order_of_the_imports() -> None:
    assert link("main.js", MODULES.__getitem__) == (
        'import * as $library0 from "lib";\n'
        "const $ = {};\n"
        '$["a.js"] = (() => {\n'
        'const one = 1;\nfunction three() {\nreturn "/* kept */ // kept";\n}\nreturn { one, three };\n})();\n'
        '$["folder/b.js"] = (() => {\n'
        'const { one } = $["a.js"];\nasync function* four() {}\nclass Five {}\nreturn { four, Five };\n})();\n'
        '$["effect.js"] = (() => {\nglobalThis.done = true;\nreturn {  };\n})();\n'
        '$["main.js"] = (() => {\n'
        "const lib = $library0.default;\n"
        'const { one: two, three } = $["a.js"];\n'
        'const b = $["folder/b.js"];\n\n'
        "const sum = two + (three) + b.four;\nif (sum) {\nlib(sum);\n}\n"
        "return { sum };\n})();\n"
    )


def test_code_between_two_comments_is_kept() -> None:
    text = "/** @type {Element} */ (found).focus();\nconst one = 1;\n/** The same. */\nconst two = one;\n"
    assert "(found).focus();\nconst one = 1;\nconst two = one;\n" in link("a.js", {"a.js": text}.__getitem__)


def test_modules_that_import_each_other_are_refused() -> None:
    circle = {"a.js": 'import { b } from "./b.js";\n', "b.js": 'import { a } from "./a.js";\n'}
    with pytest.raises(ValueError, match=r"modules import each other: a\.js -> b\.js -> a\.js"):
        link("a.js", circle.__getitem__)


@pytest.mark.parametrize("line", ["export default 1;", 'export * from "./b.js";', "export { a };", "import('x');"])
def test_unsupported_import_or_export_is_rejected(line: str) -> None:
    with pytest.raises(ValueError, match=r"a\.js has an import or export of an unsupported form"):
        link("a.js", {"a.js": line + "\n"}.__getitem__)
