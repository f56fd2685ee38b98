/**
 * Parses server-sent events from chunks of any size.
 * @import { ApiEvent } from "../../types"
 */

/** Parses a stream of text into events. Comments and the final `[DONE]` are skipped. */
export class EventReader {
  #rest = "";

  /**
   * @param {string} piece
   * @returns {ApiEvent[]} the events that this piece completes
   */
  push(piece) {
    const blocks = (this.#rest + piece).replaceAll("\r\n", "\n").split("\n\n");
    this.#rest = /** @type {string} */ (blocks.pop());
    return blocks.map(dataOf).filter((data) => data !== "" && data !== "[DONE]").map((data) => JSON.parse(data));
  }
}

/** @param {string} block */
function dataOf(block) {
  return block
    .split("\n")
    .filter((line) => line.startsWith("data:"))
    .map((line) => line.slice(5).trimStart())
    .join("\n");
}

/**
 * Reads the events of a body.
 * @param {ReadableStream<Uint8Array>} body
 * @returns {AsyncGenerator<ApiEvent>}
 */
export async function* eventsOf(body) {
  const reader = new EventReader();
  const decoder = new TextDecoder();
  const stream = body.getReader();
  try {
    for (;;) {
      const { done, value } = await stream.read();
      if (done) return;
      yield* reader.push(decoder.decode(value, { stream: true }));
    }
  } finally {
    stream.cancel().catch(() => undefined);
  }
}
