import assert from "node:assert/strict";
import { test } from "node:test";
import { cachedTokensOf } from "../../../services/edge/antiphon_edge/console/web/app/core/cached.js";

const usage = (details) => ({ input_tokens: 9, output_tokens: 1, total_tokens: 10, input_tokens_details: details });

test("cached tokens are those that the engine reports, and null where it reports nothing of its cache", () => {
  assert.equal(cachedTokensOf(usage({ cached_tokens: 4, cache_write_tokens: 5 })), 4);
  assert.equal(cachedTokensOf(usage({ cached_tokens: 0, cache_write_tokens: 9 })), 0);
  assert.equal(cachedTokensOf(usage({ cached_tokens: 0, cache_write_tokens: 0 })), null);
  assert.equal(cachedTokensOf(usage({ cached_tokens: 9 })), 9);
  assert.equal(cachedTokensOf(usage(undefined)), null);
});
