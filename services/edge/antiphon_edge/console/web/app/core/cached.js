/** The part of a prompt that the engine had in its cache. @import { CacheFacts, Usage } from "../../types" */

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

/**
 * The tokens of a prompt that were cached, lost and new. Without the server's facts nothing is known to be lost.
 * @param {Usage} usage @param {CacheFacts | null} facts
 * @returns {{ kind: "cached" | "lost" | "fresh", tokens: number }[]}
 */
export function cachePartsOf(usage, facts) {
  const cached = Math.min(cachedTokensOf(usage) ?? 0, usage.input_tokens);
  const lost = Math.min(facts?.lost_tokens ?? 0, usage.input_tokens - cached);
  return [
    { kind: "cached", tokens: cached },
    { kind: "lost", tokens: lost },
    { kind: "fresh", tokens: usage.input_tokens - cached - lost },
  ];
}
