import assert from "node:assert/strict";
import { test } from "node:test";
import { jsonLines, markdown } from "../../../services/edge/antiphon_edge/console/web/app/core/export.js";

const TURN = {
  input: [{ type: "message", role: "user", content: [{ type: "input_text", text: "Hi" }] }],
  response: { id: "resp_1", output: [{ type: "reasoning", content: [{ text: "Hm.\nWell." }] }, { type: "function_call", name: "f", call_id: "c", arguments: '"```"' }, { type: "message", role: "assistant", content: [{ text: "Hello" }] }] },
};

test("JSON lines have one line for each turn, with its input", () => {
  const lines = jsonLines([TURN, TURN]).trimEnd().split("\n").map((line) => JSON.parse(line));
  assert.deepEqual(lines[1].input, TURN.input);
  assert.equal(lines.length, 2);
});

test("Markdown has all items in order, in fences longer than those of the text", () => {
  const text = markdown([TURN]);
  assert.deepEqual(text.match(/^## .*$/gm), ["## user", "## reasoning", "## call of f", "## assistant"]);
  assert.ok(text.includes("> Hm.\n> Well.") && text.includes('````\n"```"\n````'));
});

test("Markdown has the commands, patches and outputs of calls without a name", () => {
  const output = [
    { type: "shell_call", call_id: "c1", action: { commands: ["ls -la"] } },
    { type: "shell_call_output", call_id: "c1", output: [{ stdout: "a.txt" }] },
    { type: "apply_patch_call", call_id: "c2", operation: { type: "delete_file", path: "b.txt" } },
  ];
  const text = markdown([{ input: [], response: { id: "resp_1", output } }]);
  assert.deepEqual(text.match(/^## .*$/gm), ["## call of shell", "## output of c1", "## call of apply_patch"]);
  for (const part of ["ls -la", "a.txt", "b.txt"]) assert.ok(text.includes(part), part);
});
