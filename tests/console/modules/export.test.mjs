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

test("Markdown has the images and files of messages and tool outputs, with their names and types", () => {
  const content = [
    { type: "input_text", text: "Look" },
    { type: "input_image", image_url: "data:image/png;base64,AA==" },
    { type: "input_image", image_url: "https://a.example/b c.png" },
    { type: "input_file", filename: "a [1].pdf", file_data: "data:application/pdf;base64,BB==" },
    { type: "input_file", file_url: "https://a.example/b.pdf" },
  ];
  const shown = { type: "function_call_output", call_id: "c", output: content };
  const text = markdown([{ input: [{ role: "user", content }, shown], response: { id: "resp_1", output: [] } }]);
  const lines = [
    "![image (image/png)](<data:image/png;base64,AA==>)",
    "![image](<https://a.example/b%20c.png>)",
    "[a \\[1\\].pdf (application/pdf)](<data:application/pdf;base64,BB==>)",
    "[file](<https://a.example/b.pdf>)",
  ];
  assert.ok(text.startsWith(`## user\n\nLook\n\n${lines.join("\n\n")}\n`), text);
  assert.ok(text.includes("https://a.example/b.pdf"), text);
});
