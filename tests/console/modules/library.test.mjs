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

function deferred() {
  let resolve;
  const promise = new Promise((done) => (resolve = done));
  return { promise, resolve };
}
