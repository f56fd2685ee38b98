/** The part of a prompt that the engine had in its cache. @import { Usage } from "../../types" */

/**
 * The cached tokens of a prompt; null if the engine reports nothing of its cache. Then both numbers of the usage are 0,
 * which they are in no other case: no prompt is empty.
 * @param {Usage} usage
 * @returns {number | null}
 */
export function cachedTokensOf(usage) {
  const { cached_tokens: cached = 0, cache_write_tokens: written = 0 } = usage.input_tokens_details ?? {};
  return cached + written > 0 ? cached : null;
}
