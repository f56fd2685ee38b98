import assert from "node:assert/strict";
import { test } from "node:test";
import { adviceFor, ApiError, errorOf, isRetryable } from "../../../services/edge/antiphon_edge/console/web/app/core/errors.js";

const answer = (status, body, headers = {}) => new Response(body, { status, headers });

test("an error has the API's message, code, parameter, request id and retry time", async () => {
  const body = JSON.stringify({ error: { message: "No such model.", code: "model_not_found", param: "model" } });
  const error = await errorOf(answer(404, body, { "x-request-id": "req_1", "retry-after": "3" }));
  assert.deepEqual([error.message, error.code, error.param, error.requestId, error.retryAfterSeconds], ["No such model.", "model_not_found", "model", "req_1", 3]);
});

test("an answer that is not the API's, such as a proxy's, is described by its status", async () => {
  assert.match((await errorOf(answer(502, "<html>Bad gateway</html>"))).message, /^502/);
});

test("rate limits, server errors and lost connections are retryable, client errors are not", () => {
  const of = (status) => new ApiError(status, { message: "" }, null);
  assert.deepEqual([of(429), of(503), new TypeError("fetch"), of(400), of(401), new Error("x")].map(isRetryable), [true, true, true, false, false, false]);
});

test("there is advice for every error", () => {
  for (const status of [400, 401, 403, 404, 409, 413, 418, 429, 500, 503]) assert.ok(adviceFor(new ApiError(status, { message: "" }, null)).length > 10);
  assert.notEqual(adviceFor(new TypeError("")), adviceFor(new Error("")));
});
