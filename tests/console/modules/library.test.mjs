import assert from "node:assert/strict";
import { test } from "node:test";
import { failed, json, message, page, response, sent, serve, until } from "./tab.mjs";

const library = await import("../../../services/edge/antiphon_edge/console/web/app/state/library.js");

test("a load that ends after the first events does not undo them", async () => {
  const id = "resp_raced";
  const { promise, resolve } = deferred();
  serve("GET", /^responses\/resp_raced$/, () => promise);
  serve("GET", /^responses\/resp_raced\/input_items/, () => page([]));
  const loading = library.load(id);
  await until(() => sent.includes("GET responses/resp_raced"));
  library.take(id, { type: "response.created", sequence_number: 0, response: response(id, { status: "in_progress" }) });
  library.take(id, { type: "response.output_item.added", sequence_number: 1, output_index: 0, item: message("a") });
  resolve(json(response(id, { status: "in_progress" })));
  await loading;
  library.take(id, { type: "response.output_text.delta", sequence_number: 2, output_index: 0, content_index: 0, delta: "b" });
  assert.equal(library.peek(id).response.output[0].content[0].text, "ab");
});

test("a load that meets a rate limit is repeated after it", async () => {
  let tries = 0;
  serve("GET", /^responses\/resp_limited$/, () => {
    tries += 1;
    return tries === 1 ? failed(429, "rate_limit_exceeded", { "retry-after": "0.01" }) : json(response("resp_limited"));
  });
  serve("GET", /^responses\/resp_limited\/input_items/, () => page([]));
  await library.load("resp_limited");
  assert.equal(library.peek("resp_limited").response?.id, "resp_limited");
});

test("a load that met a lost connection is repeated when the view opens again", async () => {
  serve("GET", /^responses\/resp_offline/, () => {
    throw new TypeError("Failed to fetch");
  });
  await library.load("resp_offline");
  assert.equal(library.peek("resp_offline").error.message, "Failed to fetch");
  serve("GET", /^responses\/resp_offline$/, () => json(response("resp_offline")));
  serve("GET", /^responses\/resp_offline\/input_items/, () => page([]));
  await library.load("resp_offline");
  const { response: loaded, error } = library.peek("resp_offline");
  assert.deepEqual([loaded?.id, error], ["resp_offline", null]);
});

test("a response that the server does not have is requested once", async () => {
  await library.load("resp_absent");
  await library.load("resp_absent");
  assert.equal(library.peek("resp_absent").error.status, 404);
  assert.equal(sent.filter((each) => each === "GET responses/resp_absent").length, 1);
});

test("a response that ran for another client when it was loaded is loaded again", async () => {
  serve("GET", /^responses\/resp_elsewhere\/input_items/, () => page([]));
  serve("GET", /^responses\/resp_elsewhere$/, () => json(response("resp_elsewhere", { status: "in_progress" })));
  await library.load("resp_elsewhere");
  serve("GET", /^responses\/resp_elsewhere$/, () => json(response("resp_elsewhere")));
  await library.load("resp_elsewhere");
  assert.equal(library.peek("resp_elsewhere").response.status, "completed");
});

function deferred() {
  let resolve;
  const promise = new Promise((done) => (resolve = done));
  return { promise, resolve };
}
