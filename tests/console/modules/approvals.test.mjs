import assert from "node:assert/strict";
import { test } from "node:test";
import { bodyOfAnswer, shownArguments } from "../../../services/edge/antiphon_edge/console/web/app/core/approvals.js";

const asker = { id: "resp_1", model: "m", tools: [{ type: "mcp", server_label: "shop" }], instructions: "Be brief." };
const approval = { id: "mcpr_1", response_id: "resp_1", server_label: "shop", name: "buy", arguments: "{}", created_at: 1 };

test("an answer continues the response that asks, or its conversation", () => {
  const answer = { type: "mcp_approval_response", approval_request_id: "mcpr_1", approve: true };
  const same = { model: "m", tools: asker.tools, instructions: "Be brief.", input: [answer] };
  assert.deepEqual(bodyOfAnswer(asker, approval, true, "ignored"), { ...same, previous_response_id: "resp_1" });
  assert.deepEqual(bodyOfAnswer({ ...asker, conversation: { id: "conv_1" } }, approval, true, ""), { ...same, conversation: "conv_1" });
});

test("a denial has the reason of the person", () => {
  assert.deepEqual(bodyOfAnswer(asker, approval, false, " Too dear. ").input[0].reason, "Too dear.");
  assert.equal("reason" in bodyOfAnswer(asker, approval, false, " ").input[0], false);
});

test("arguments are shown as JSON where they are JSON", () => {
  assert.equal(shownArguments('{"a":1}'), '{\n  "a": 1\n}');
  assert.equal(shownArguments("{<b>"), "{<b>");
});
