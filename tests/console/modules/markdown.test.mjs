import assert from "node:assert/strict";
import { test } from "node:test";
import { inline, parse } from "../../../services/edge/antiphon_edge/console/web/app/core/markdown.js";

const kinds = (text) => parse(text).map((block) => block.kind);
const hrefs = (value) => JSON.stringify(value).match(/"href":"[^"]*"/g) ?? [];

test("blocks of every kind are parsed", () => {
  assert.deepEqual(kinds("# One\n\ntext\n\n- a\n- b\n\n1. c\n\n> q\n\n```js\nlet x;\n```\n\n---\n\n| a | b |\n|---|---|\n| 1 | 2 |"), [
    "heading", "paragraph", "list", "list", "quote", "code", "rule", "table",
  ]);
});

test("nested lists are parsed", () => {
  const [list] = parse("- a\n  - b\n  - c\n- d");
  assert.equal(list.items.length, 2);
  assert.equal(list.items[0][1].items.length, 2);
});

test("an unclosed fence contains the rest of the text", () => {
  assert.deepEqual(parse("```python\nprint(1)\n"), [{ kind: "code", language: "python", text: "print(1)\n" }]);
});

test("inline pieces of every kind are parsed", () => {
  assert.deepEqual(inline("a **b** *c* `d` [e](https://f.example) \\*g\\*").map((piece) => piece.kind), [
    "text", "strong", "text", "em", "text", "code", "text", "link", "text", "text", "text", "text",
  ]);
});

test("HTML stays text", () => {
  assert.deepEqual(parse("<img src=x onerror=alert(1)>"), [{ kind: "paragraph", inside: [{ kind: "text", text: "<img src=x onerror=alert(1)>" }] }]);
});

test("only links to web addresses get an href", () => {
  for (const target of ["javascript:alert(1)", "JaVaScRiPt:alert(1)", "data:text/html,x", "vbscript:x", "//evil.example", "/v1/responses", " javascript:x", "\u0001javascript:x"]) {
    assert.deepEqual(hrefs(parse(`[a](${target}) [b](<${target}>) ![c](${target})`)), [], target);
  }
  assert.deepEqual(hrefs(parse("[a](https://a.example/(x)) https://b.example.")), ['"href":"https://a.example/(x)"', '"href":"https://b.example"']);
});

test("parsing of arbitrary markup ends and loses no letters and digits", () => {
  const pieces = ["*", "_", "`", "[", "](", ")", "- ", "> ", "\n", "1. ", "#", "|", "a1", "~~", "  ", "```"];
  for (let round = 0; round < 3000; round += 1) {
    const text = Array.from({ length: 12 }, (_, at) => pieces[(round * 31 + at * at * 17 + (round >> 3) * at) % pieces.length]).join("");
    const read = JSON.stringify(parse(text));
    if (!text.includes("](") && !text.includes("```")) { // the address of a link and the language of a block are not shown
      assert.equal((read.match(/a1/g) ?? []).length, (text.match(/a1/g) ?? []).length, text);
    }
  }
});

test("parsing of deeply nested markup ends", () => {
  assert.ok(JSON.stringify(parse("> ".repeat(5000) + "x")).length < 100_000);
  assert.ok(parse("- ".repeat(2000) + "x").length > 0);
  assert.ok(inline("*".repeat(3000) + "a" + "*".repeat(3000)).length > 0);
});

test("three backticks around code within a line do not begin a code block", () => {
  assert.deepEqual(kinds("```ls``` lists files.\n\nNext"), ["paragraph", "paragraph"]);
  assert.deepEqual(inline("```ls``` lists"), [{ kind: "code", text: "ls" }, { kind: "text", text: " lists" }]);
});

test("a line with a fence and a language does not end a code block", () => {
  assert.deepEqual(parse("```\na\n```js\nb\n````\nafter"), [
    { kind: "code", language: "", text: "a\n```js\nb" },
    { kind: "paragraph", inside: [{ kind: "text", text: "after" }] },
  ]);
});

test("a hash at the end of a word stays in its heading", () => {
  const titles = parse("# Learn C#\n\n## Closed ##\n\n# #").map((block) => block.inside.map((piece) => piece.text).join(""));
  assert.deepEqual(titles, ["Learn C#", "Closed", ""]);
});

test("an escaped pipe stays in its table cell", () => {
  const [table] = parse("| a | b |\n|---|---|\n| x \\| y | `p \\| q` |");
  assert.deepEqual(table.rows, [[[{ kind: "text", text: "x | y" }], [{ kind: "code", text: "p | q" }]]]);
});

test("long runs of one character take linear time", () => {
  const long = 100_000;
  const began = performance.now();
  parse(" ".repeat(long) + "x");
  parse("a" + " ".repeat(long) + "x");
  parse("# a" + " ".repeat(long) + "x");
  parse("# " + "#".repeat(long) + "x");
  parse("# a" + " ".repeat(long) + "\u2028x");
  parse("x" + "`".repeat(long));
  parse("a|b\n" + " ".repeat(long) + "x");
  assert.ok(performance.now() - began < 5000);
});
