import assert from "node:assert/strict";
import { test } from "node:test";
import { bodyOf, DEFAULTS, inputOf, openCalls, outputsOf, settingsOf } from "../../../services/edge/antiphon_edge/console/web/app/core/request.js";

const settings = (changes) => ({ ...DEFAULTS, model: "m", ...changes });

test("boolean, nested and multi-type schemas are valid, unknown types are not", async () => {
  const { schemaProblems } = await import("../../../services/edge/antiphon_edge/console/web/app/core/schema.js");
  assert.deepEqual(schemaProblems({ type: ["string", "null"], properties: { a: true, b: { items: { type: "integer" } } } }, "s"), []);
  assert.deepEqual(schemaProblems({ items: { type: "int" } }, "s"), ['s.items.type: "int" is no type of JSON Schema.']);
});

test("unchanged fields are not sent", () => {
  assert.deepEqual(bodyOf(settings({}), "hi", null), { body: { model: "m", input: "hi" }, mistakes: [] });
});

test("changed fields become request parameters", () => {
  const { body } = bodyOf(settings({ instructions: "Short.", temperature: "0.5", topP: "1", maxOutputTokens: "9", effort: "low", background: true, store: false }), "hi", "resp_1");
  assert.deepEqual(body, {
    model: "m", input: "hi", previous_response_id: "resp_1", instructions: "Short.", temperature: 0.5, top_p: 1,
    max_output_tokens: 9, reasoning: { effort: "low" }, background: true, store: false,
  });
});

test("a JSON mistake names its field and line", () => {
  const [mistake] = bodyOf(settings({ tools: '[\n  {"type": function}\n]' }), "", null).mistakes;
  assert.deepEqual([mistake.field, mistake.line], ["tools", 2]);
});

test("a schema mistake names its path", () => {
  const tools = JSON.stringify([{ type: "function", name: "a b", parameters: { type: "objekt", required: ["x"], properties: {} } }]);
  const messages = bodyOf(settings({ tools }), "", null).mistakes.map((each) => each.message.split(":")[0]);
  assert.deepEqual(messages, ["tools[0].name", "tools[0].parameters.type", "tools[0].parameters.required"]);
  const wrong = bodyOf(settings({ format: "json_schema", schema: '{"properties": {"a": {"type": "strin"}}}' }), "", null).mistakes;
  assert.deepEqual(wrong.map((each) => [each.field, each.message.split(":")[0]]), [["schema", "schema.properties.a.type"]]);
});

test("a number field with other text is a mistake", () => {
  assert.equal(bodyOf(settings({ temperature: "warm" }), "", null).mistakes[0].field, "temperature");
});

test("images and files become parts of the message", () => {
  const [message] = inputOf("look", [{ name: "a.png", kind: "image", url: "data:image/png;base64,AA==" }, { name: "b.txt", kind: "file", url: "data:text/plain,b" }]);
  assert.deepEqual(message.content.map((part) => part.type), ["input_text", "input_image", "input_file"]);
  assert.equal(inputOf("only text", []), "only text");
});

test("settings are restored from a response", () => {
  const response = { model: "m", instructions: "Short.", temperature: 0.5, top_p: 1, tools: [{ type: "function", name: "f" }], text: { format: { type: "json_schema", schema: { type: "object" } } }, output: [], store: true };
  const { body, mistakes } = bodyOf(settingsOf(response), "hi", null);
  assert.deepEqual(mistakes, []);
  assert.deepEqual([body.instructions, body.temperature, body.tools, body.text.format.schema], ["Short.", 0.5, response.tools, { type: "object" }]);
});

test("outputs have the call ids of their calls", () => {
  const calls = openCalls({ output: [{ type: "message" }, { type: "function_call", call_id: "c1" }, { type: "custom_tool_call", call_id: "c2" }] });
  assert.deepEqual(outputsOf(calls, { c1: "1", c2: "2" }), [
    { type: "function_call_output", call_id: "c1", output: "1" },
    { type: "custom_tool_call_output", call_id: "c2", output: "2" },
  ]);
});
