import assert from "node:assert/strict";
import { test } from "node:test";
import { follow, GapError, PAUSES_MS } from "../../../services/edge/antiphon_edge/console/web/app/core/follow.js";

const LOG = Array.from({ length: 10 }, (_, number) => ({ type: number === 9 ? "response.completed" : "x", sequence_number: number }));

/** An event log whose connection breaks after so many events each time. */
function broken(lengths, log = LOG) {
  const asked = [];
  const told = { asked, waits: [], lost: [] };
  return Object.assign(told, {
    async *open(after) {
      asked.push(after);
      const length = lengths.shift() ?? Infinity;
      if (length === 0) throw new TypeError("Failed to fetch");
      yield* log.filter((event) => event.sequence_number > after).slice(0, length);
    },
    hasEnded: async () => false,
    wait: async (milliseconds) => void told.waits.push(milliseconds),
    isRetryable: (error) => error instanceof TypeError,
    onConnection: (lost) => void told.lost.push(lost),
  });
}

async function collect(events) {
  const found = [];
  for await (const event of events) found.push(event);
  return found;
}

test("a lost connection is resumed after the last sequence number", async () => {
  const source = broken([3, 0, 0, 2]);
  assert.deepEqual((await collect(follow(source))).map((event) => event.sequence_number), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
  assert.deepEqual(source.asked, [-1, 2, 2, 2, 4]);
  assert.deepEqual(source.waits, [PAUSES_MS[0], PAUSES_MS[1], PAUSES_MS[2], PAUSES_MS[0]]);
  assert.deepEqual(source.lost, [true, false, true, false]);
});

test("repeated events are skipped", async () => {
  const source = { ...broken([]), open: async function* () { yield* LOG; } };
  assert.deepEqual((await collect(follow(source, 6))).map((event) => event.sequence_number), [7, 8, 9]);
});

test("a gap in the numbers is an error", async () => {
  await assert.rejects(collect(follow(broken([], LOG.filter((event) => event.sequence_number !== 4)))), GapError);
});

test("an error that is not retryable ends the stream", async () => {
  const source = { ...broken([]), open: async function* () { throw new RangeError("no such response"); } };
  await assert.rejects(collect(follow(source)), RangeError);
});

test("a stream without a terminal event ends when the response has ended", async () => {
  const source = { ...broken([3]), hasEnded: async () => true };
  assert.equal((await collect(follow(source))).length, 3);
});
