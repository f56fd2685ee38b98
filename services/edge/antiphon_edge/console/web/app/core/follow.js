/**
 * Follows a response to its end, and resumes after lost connections.
 * @import { ApiEvent } from "../../types"
 */
import { TERMINAL } from "./event-table.js";

export const PAUSES_MS = [250, 500, 1000, 2000, 4000];

/**
 * @typedef {object} Source
 * @property {(after: number) => AsyncIterable<ApiEvent>} open The events after a sequence number; -1 for all.
 * @property {() => Promise<boolean>} hasEnded Whether the response has ended, if a stream ends without a terminal event.
 * @property {(milliseconds: number) => Promise<void>} wait
 * @property {(error: unknown) => boolean} isRetryable Whether a retry may succeed after an error.
 * @property {(lost: boolean) => void} [onConnection] Called when the connection is lost (true), and when it is back (false).
 */

/**
 * Yields each event once and in order. After a lost connection it resumes after the last event.
 * Throws errors that are not retryable, and a GapError.
 * @param {Source} source
 * @param {number} [after]
 * @returns {AsyncGenerator<ApiEvent>}
 */
export async function* follow({ open, hasEnded, wait, isRetryable, onConnection = () => undefined }, after = -1) {
  let last = after;
  let tries = 0;
  for (;;) {
    try {
      for await (const event of open(last)) {
        const number = event.sequence_number ?? last + 1;
        if (number <= last) continue;
        if (number !== last + 1) throw new GapError(last, number);
        if (tries > 0) onConnection(false);
        [last, tries] = [number, 0];
        yield event;
        if (TERMINAL.has(event.type)) return;
      }
      if (await hasEnded()) return;
    } catch (error) {
      if (error instanceof GapError || !isRetryable(error)) throw error;
    }
    if (tries === 0) onConnection(true);
    await wait(PAUSES_MS[Math.min(tries, PAUSES_MS.length - 1)]);
    tries += 1;
  }
}

/** Events are missing between two sequence numbers. */
export class GapError extends Error {
  /**
   * @param {number} last
   * @param {number} next
   */
  constructor(last, next) {
    super(`Event ${next} came after event ${last}: events are missing.`);
  }
}
