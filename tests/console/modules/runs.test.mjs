import assert from "node:assert/strict";
import { test } from "node:test";
import { failed, json, message, page, response, sent, serve, streamed, until } from "./tab.mjs";

const library = await import("../../../services/edge/antiphon_edge/console/web/app/state/library.js");
const runs = await import("../../../services/edge/antiphon_edge/console/web/app/state/runs.js");

const delta = (sequence_number, text) => ({ type: "response.output_text.delta", sequence_number, output_index: 0, content_index: 0, delta: text });

test("events behind the answer of a cancellation are not added to its text", async () => {
  const running = response("resp_cancelled", { status: "in_progress", background: true });
  const cancelled = response("resp_cancelled", { status: "cancelled", background: true, output: [message("ab")] });
  const stream = streamed();
  serve("GET", /^responses\/resp_cancelled$/, () => json(cancelled));
  serve("GET", /^responses\/resp_cancelled\?stream=true/, () => stream.answer);
  serve("GET", /^responses\/resp_cancelled\/input_items/, () => page([]));
  serve("POST", /^responses\/resp_cancelled\/cancel/, () => json(cancelled));
  const following = runs.followRun("resp_cancelled");
  stream.send({ type: "response.created", sequence_number: 0, response: running }, { type: "response.output_item.added", sequence_number: 1, output_index: 0, item: message("") }, delta(2, "a"));
  await until(() => library.peek("resp_cancelled").arrivals.length === 3);
  await runs.cancelRun("resp_cancelled");
  stream.send(delta(3, "b"));
  stream.end();
  await following;
  const { response: shown, error } = library.peek("resp_cancelled");
  assert.deepEqual([shown.status, shown.output[0].content[0].text, error], ["cancelled", "ab", null]);
});

test("the error of a follow or a cancellation is gone once it works", async () => {
  serve("GET", /^responses\/resp_again$/, () => json(response("resp_again", { status: "in_progress", background: true })));
  serve("GET", /^responses\/resp_again\/input_items/, () => page([]));
  serve("GET", /^responses\/resp_again\?stream=true/, () => failed(401, "invalid_api_key"));
  serve("POST", /^responses\/resp_again\/cancel/, () => failed(500, "server_error"));
  await runs.followRun("resp_again");
  assert.equal(library.peek("resp_again").error.status, 401);
  const stream = streamed();
  serve("GET", /^responses\/resp_again\?stream=true/, () => stream.answer);
  const following = runs.followRun("resp_again");
  assert.equal(library.peek("resp_again").error, null);
  await runs.cancelRun("resp_again");
  assert.equal(library.peek("resp_again").error.status, 500);
  serve("POST", /^responses\/resp_again\/cancel/, () => json({}));
  await runs.cancelRun("resp_again");
  assert.equal(library.peek("resp_again").error, null);
  stream.send({ type: "response.completed", sequence_number: 0, response: response("resp_again") });
  stream.end();
  await following;
});

test("a response that was deleted is not among the runs any more", () => {
  runs.watch("resp_deleted");
  runs.unwatch("resp_deleted");
  assert.ok(!runs.runs.value.includes("resp_deleted"));
  assert.ok(!JSON.parse(sessionStorage.getItem("antiphon.runs")).includes("resp_deleted"));
});

test("a response that runs in the foreground is not followed", async () => {
  library.note("resp_here", { response: response("resp_here", { status: "in_progress" }), input: [], sent: { input: "Hi" } });
  await runs.followIfRunning("resp_here");
  assert.equal(library.peek("resp_here").error, null);
  assert.ok(!sent.some((each) => each.includes("resp_here")));
});
