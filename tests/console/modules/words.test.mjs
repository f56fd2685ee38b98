import assert from "node:assert/strict";
import { test } from "node:test";
import { readdirSync, readFileSync } from "node:fs";
import { differences } from "../../../services/edge/antiphon_edge/console/web/app/core/differences.js";
import { STRINGS } from "../../../services/edge/antiphon_edge/console/web/app/strings.js";
import { SHAPES } from "../../../services/edge/antiphon_edge/console/web/app/core/shapes.js";
import { askedOf, oneLine, reasoningOf, shortId, summaryOf, textOf } from "../../../services/edge/antiphon_edge/console/web/app/core/texts.js";
import { newTrace } from "../../../services/edge/antiphon_edge/console/web/app/core/trace.js";

const APP = new URL("../../../services/edge/antiphon_edge/console/web/app/", import.meta.url);

test("every text that the views show is in the table of strings", () => {
  for (const folder of ["views/", "parts/"]) {
    for (const name of readdirSync(new URL(folder, APP))) {
      const text = readFileSync(new URL(folder + name, APP), "utf8");
      const shown = text.match(/(?<!=)>[ \n]*[A-Za-z]{3,}[^<>{}$`;=]*<\//g) ?? [];
      assert.deepEqual(shown.filter((each) => !each.includes("antiphon keys create")), [], name);
    }
  }
});

test("every string of the table is used", () => {
  const names = readdirSync(APP, { recursive: true }).filter((name) => name.endsWith(".js") && name !== "strings.js");
  const text = names.map((name) => readFileSync(new URL(name, APP), "utf8")).join("\n");
  for (const [group, words] of Object.entries(STRINGS)) {
    assert.ok(text.includes(`STRINGS.${group}`), group);
    if (typeof words !== "object" || group === "status") continue;
    for (const word of Object.keys(words)) assert.match(text, new RegExp(`\\.${word}\\b`), `${group}.${word}`);
  }
});

test("every status has a word and a shape of its own", () => {
  assert.deepEqual(Object.keys(SHAPES).toSorted(), Object.keys(STRINGS.status).toSorted());
  assert.equal(new Set(Object.values(SHAPES).map((shape) => shape(0, 0, 4))).size, Object.keys(SHAPES).length);
});

test("no view makes HTML out of text", () => {
  const names = readdirSync(APP, { recursive: true }).filter((name) => name.endsWith(".js"));
  assert.ok(names.length > 30);
  for (const name of names) {
    assert.doesNotMatch(readFileSync(new URL(name, APP), "utf8"), /innerHTML|outerHTML|insertAdjacentHTML|document\.write|dangerouslySet|\beval\(|new Function/, name);
  }
});

test("items are summarised in one line", () => {
  assert.equal(textOf({ type: "message", content: "plain" }), "plain");
  assert.equal(reasoningOf({ type: "reasoning", summary: [{ text: "a" }] }), "a");
  assert.equal(summaryOf({ output: [{ type: "function_call", name: "f", arguments: '{"a": 1}' }] }), 'f({"a": 1})');
  const markdown = { type: "message", content: "# A\n\n**b** *x* `c_d` 2 * 3\n\n| e | f |\n|---|---|\n| 1 | 2 |" };
  assert.equal(summaryOf({ output: [markdown] }), "A b x c_d 2 * 3 e f 1 2");
  assert.equal(askedOf([{ type: "function_call_output", output: "42" }]), "42");
  assert.equal(oneLine("a\n b".repeat(100), 10).length, 10);
  assert.equal(shortId("resp_0123456789"), "…456789");
});

test("calls without a name are summarised by their type and command", () => {
  const output = [{ type: "shell_call", action: { commands: ["ls"] } }, { type: "tool_search_call", arguments: { query: "x" } }];
  assert.equal(summaryOf({ output }), 'shell({ "commands": [ "ls" ] }) tool_search({ "query": "x" })');
});

test("a line is never cut within a character", () => {
  assert.ok(oneLine("a" + "\u{1f333}".repeat(10), 5).isWellFormed());
});

test("the differing fields of two requests are named", () => {
  const names = differences({ model: "a", temperature: 1, tools: [] }, { model: "b", temperature: 1, tools: [1] }).map((row) => row.name);
  assert.deepEqual(names, ["model", "tools"]);
});

test("requests with other inputs differ, whatever the ids of their items", () => {
  const asked = (id, text) => ({ input: [{ id, type: "message", role: "user", content: text }] });
  assert.deepEqual(differences(asked("msg_1", "a"), asked("msg_2", "a")), []);
  assert.deepEqual(differences(asked("msg_1", "a"), asked("msg_1", "b")).map((row) => row.name), ["input"]);
  assert.deepEqual(differences({ top_logprobs: 0 }, { top_logprobs: 2 }).map((row) => row.name), ["top_logprobs"]);
});

test("a trace context has the form of the W3C standard", () => {
  const { id, header } = newTrace();
  assert.match(header, new RegExp(`^00-${id}-[0-9a-f]{16}-01$`));
});
