/**
 * Follows a response that runs elsewhere, to its end, over connections that break.
 * @import { ApiEvent } from "../../types"
 */
import { TERMINAL } from "./fold.js";

export const PAUSES_MS = [250, 500, 1000, 2000, 4000];

/**
 * @typedef {object} Ways
 * @property {(after: number) => AsyncIterable<ApiEvent>} open The events behind a number; -1 for all.
 * @property {() => Promise<boolean>} hasEnded Whether nothing more will come, when a stream ended without its last event.
 * @property {(milliseconds: number) => Promise<void>} wait
 * @property {(error: unknown) => boolean} mayPass Whether it is worth another try.
 * @property {(lost: boolean) => void} [onConnection] Told when the connection is lost, and when it is back.
 */

/**
 * Each event once and in order. After a lost connection it goes on behind the last number.
 * Throws what will not pass, and a gap in the numbers.
 * @param {Ways} ways
 * @param {number} [after]
 * @returns {AsyncGenerator<ApiEvent>}
 */
export async function* follow({ open, hasEnded, wait, mayPass, onConnection = () => undefined }, after = -1) {
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
      if (error instanceof GapError || !mayPass(error)) throw error;
    }
    if (tries === 0) onConnection(true);
    await wait(PAUSES_MS[Math.min(tries, PAUSES_MS.length - 1)]);
    tries += 1;
  }
}

/** Events are missing between two numbers. */
export class GapError extends Error {
  /**
   * @param {number} last
   * @param {number} next
   */
  constructor(last, next) {
    super(`Event ${next} came behind event ${last}.`);
  }
}
