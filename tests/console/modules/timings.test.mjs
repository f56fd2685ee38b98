import assert from "node:assert/strict";
import { test } from "node:test";
import { duration, paceOf, timingsOf } from "../../../services/edge/antiphon_edge/console/web/app/core/timings.js";

const arrival = (type, at) => ({ event: { type }, at });
const ARRIVALS = [
  arrival("response.created", 5),
  arrival("response.queued", 10),
  arrival("response.in_progress", 40),
  arrival("response.output_text.delta", 100),
  arrival("response.output_text.delta", 600),
  arrival("response.output_text.delta", 1100),
  arrival("response.output_item.done", 1105),
  arrival("response.completed", 1155),
];

test("queue, first token, commit and total times are computed", () => {
  const { queued, firstToken, committed, total, tokensPerSecond } = timingsOf(ARRIVALS);
  assert.deepEqual({ queued, firstToken, committed, total, tokensPerSecond }, { queued: 30, firstToken: 100, committed: 50, total: 1155, tokensPerSecond: 2 });
});

test("tokens per second use the response's token count once it is known", () => {
  assert.equal(timingsOf(ARRIVALS, 101).tokensPerSecond, 100);
});

test("timings without events are null", () => {
  assert.deepEqual(Object.values(timingsOf([])).filter((value) => value !== null), [0]);
});

test("a replay keeps the recorded pace, or spreads events over a given duration", () => {
  assert.deepEqual(paceOf(ARRIVALS, null), ARRIVALS.map(({ at }) => at));
  assert.deepEqual(paceOf(ARRIVALS.slice(0, 3), 1000), [0, 500, 1000]);
});

test("durations are formatted with a fitting unit", () => {
  assert.deepEqual([null, 12.4, 1234, 12_345, 125_000].map((value) => duration(value)), ["–", "12 ms", "1.23 s", "12.3 s", "2 min 5 s"]);
});

test("a duration that is rounded up is formatted with the next unit", () => {
  assert.deepEqual([999.6, 9996, 59_980, 119_600].map((value) => duration(value)), ["1.00 s", "10.0 s", "1 min 0 s", "2 min 0 s"]);
});
