import assert from "node:assert/strict";
import { test } from "node:test";
import { DELTAS } from "../../../services/edge/antiphon_edge/console/web/app/core/event-table.js";
import { apply, fold } from "../../../services/edge/antiphon_edge/console/web/app/core/fold.js";

const base = { id: "resp_1", status: "in_progress", output: [] };
const done = { ...base, status: "completed", output: [{ type: "message", content: [{ type: "output_text", text: "ab" }] }] };

test("folded deltas equal the response of the last event", () => {
  const events = [
    { type: "response.created", response: base },
    { type: "response.output_item.added", output_index: 0, item: { type: "message", content: [] } },
    { type: "response.content_part.added", output_index: 0, content_index: 0, part: { type: "output_text", text: "" } },
    { type: "response.output_text.delta", output_index: 0, content_index: 0, delta: "a" },
    { type: "response.output_text.delta", output_index: 0, content_index: 0, delta: "b" },
  ];
  assert.deepEqual(fold(events).output, done.output);
  assert.deepEqual(fold([...events, { type: "response.completed", response: done }]), done);
});

test("arguments, custom input, reasoning and its summary are folded", () => {
  const response = structuredClone(base);
  const add = (output_index, item) => apply(response, { type: "response.output_item.added", output_index, item });
  add(0, { type: "function_call", arguments: "" });
  add(1, { type: "custom_tool_call", input: "" });
  add(2, { type: "reasoning", summary: [], content: [{ type: "reasoning_text", text: "" }] });
  apply(response, { type: "response.function_call_arguments.delta", output_index: 0, delta: "{}" });
  apply(response, { type: "response.custom_tool_call_input.delta", output_index: 1, delta: "ls" });
  apply(response, { type: "response.reasoning_text.delta", output_index: 2, content_index: 0, delta: "hm" });
  apply(response, { type: "response.reasoning_summary_part.added", output_index: 2, summary_index: 0, part: { text: "" } });
  apply(response, { type: "response.reasoning_summary_text.delta", output_index: 2, summary_index: 0, delta: "so" });
  assert.equal(response.output[0].arguments, "{}");
  assert.equal(response.output[1].input, "ls");
  assert.equal(response.output[2].content[0].text + response.output[2].summary[0].text, "hmso");
});

test("an unknown event changes nothing", () => {
  assert.deepEqual(fold([{ type: "response.created", response: base }, { type: "response.new_thing" }]), base);
});

test("every delta of the table extends its member", () => {
  for (const [type, [list, member]] of Object.entries(DELTAS)) {
    const item = list === "" ? { [member]: "a" } : { [list]: [{ [member]: "a" }] };
    const response = apply({ ...base, output: [item] }, { type, output_index: 0, content_index: 0, delta: "b" });
    const owner = list === "" ? response.output[0] : response.output[0][list][0];
    assert.equal(owner[member], "ab");
  }
});
