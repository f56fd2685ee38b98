/**
 * How long a turn took, and how fast it wrote, from the times at which its events came.
 * @import { Arrival } from "../../types"
 */
import { TERMINAL } from "./fold.js";

/**
 * @typedef {object} Timings All in milliseconds after the request, but for the last; null for what was not seen.
 * @property {number | null} queued How long it waited for a worker.
 * @property {number | null} firstToken
 * @property {number | null} generated When the last item was whole.
 * @property {number | null} committed How long the last event was held back until the response was stored.
 * @property {number | null} total
 * @property {number} deltas
 * @property {number | null} tokensPerSecond Of what was written behind the first token.
 */

/**
 * @param {readonly Arrival[]} arrivals
 * @param {number} [outputTokens] As the response counts them; until then each delta counts as one.
 * @returns {Timings}
 */
export function timingsOf(arrivals, outputTokens) {
  const queued = arrivals.find(({ event }) => event.type === "response.queued");
  const started = arrivals.find(({ event }) => event.type === "response.in_progress");
  const deltas = arrivals.filter(({ event }) => event.type.endsWith(".delta"));
  const done = arrivals.findLast(({ event }) => event.type === "response.output_item.done");
  const end = arrivals.findLast(({ event }) => TERMINAL.has(event.type));
  const [first, last] = [deltas[0], deltas.at(-1)];
  const written = (outputTokens ?? deltas.length) - 1;
  const seconds = first && last ? (last.at - first.at) / 1000 : 0;
  return {
    queued: queued && started ? started.at - queued.at : null,
    firstToken: first?.at ?? null,
    generated: done?.at ?? null,
    committed: done && end ? end.at - done.at : null,
    total: end?.at ?? null,
    deltas: deltas.length,
    tokensPerSecond: seconds > 0 && written > 0 ? written / seconds : null,
  };
}

/** Milliseconds for people. @param {number | null | undefined} milliseconds */
export function duration(milliseconds) {
  if (milliseconds === null || milliseconds === undefined) return "–";
  if (milliseconds < 1000) return `${Math.round(milliseconds)} ms`;
  if (milliseconds < 60_000) return `${(milliseconds / 1000).toFixed(milliseconds < 10_000 ? 2 : 1)} s`;
  return `${Math.floor(milliseconds / 60_000)} min ${Math.round((milliseconds % 60_000) / 1000)} s`;
}

/**
 * When to show each event of a replay, in milliseconds after its start. Events that were seen as they came keep their
 * pace; of others only the whole is known, and they are spread over it.
 * @param {readonly Arrival[]} arrivals
 * @param {number | null} lived Whether they were seen as they came: null, or how long the response took.
 */
export function paceOf(arrivals, lived) {
  if (lived === null) return arrivals.map(({ at }) => at);
  return arrivals.map((_, index) => (arrivals.length > 1 ? (index / (arrivals.length - 1)) * lived : 0));
}
