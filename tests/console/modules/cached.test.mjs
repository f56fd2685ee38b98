import assert from "node:assert/strict";
import { test } from "node:test";
import { cachePartsOf, cachedTokensOf } from "../../../services/edge/antiphon_edge/console/web/app/core/cached.js";

const usage = (details) => ({ input_tokens: 9, output_tokens: 1, total_tokens: 10, input_tokens_details: details });

test("cached tokens are those that the engine reports, and null where it reports nothing of its cache", () => {
  assert.equal(cachedTokensOf(usage({ cached_tokens: 4, cache_write_tokens: 5 })), 4);
  assert.equal(cachedTokensOf(usage({ cached_tokens: 0, cache_write_tokens: 9 })), 0);
  assert.equal(cachedTokensOf(usage({ cached_tokens: 0, cache_write_tokens: 0 })), null);
  assert.equal(cachedTokensOf(usage({ cached_tokens: 9 })), 9);
  assert.equal(cachedTokensOf(usage(undefined)), null);
});

test("the parts of a prompt add up to it, whatever the server says is lost", () => {
  const given = usage({ cached_tokens: 4, cache_write_tokens: 5 });
  const parts = (facts) => cachePartsOf(given, facts).map(({ tokens }) => tokens);
  assert.deepEqual(parts(null), [4, 0, 5]);
  assert.deepEqual(parts({ lost_tokens: 3 }), [4, 3, 2]);
  assert.deepEqual(parts({ lost_tokens: 30 }), [4, 5, 0]);
  assert.deepEqual(parts({ lost_tokens: null }), [4, 0, 5]);
});
