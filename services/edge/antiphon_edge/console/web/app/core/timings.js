/**
 * Latencies and speed of a turn, from the arrival times of its events.
 * @import { Arrival } from "../../types"
 */
import { TERMINAL } from "./event-table.js";

/**
 * @typedef {object} Timings Times in milliseconds after the request; null if the events were not seen.
 * @property {number | null} queued Duration: waiting for a worker.
 * @property {number | null} firstToken
 * @property {number | null} generated When the last item was complete.
 * @property {number | null} committed Duration: the last event was held back until the response was stored.
 * @property {number | null} total
 * @property {number} deltas
 * @property {number | null} tokensPerSecond Speed after the first token.
 */

/**
 * @param {readonly Arrival[]} arrivals
 * @param {number} [outputTokens] From the usage of the response; without it each delta counts as one token.
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

/** A duration as text. @param {number | null | undefined} milliseconds */
export function duration(milliseconds) {
  if (milliseconds === null || milliseconds === undefined) return "–";
  if (milliseconds < 999.5) return `${Math.round(milliseconds)} ms`;
  if (milliseconds < 59_950) return `${(milliseconds / 1000).toFixed(milliseconds < 9995 ? 2 : 1)} s`;
  const seconds = Math.round(milliseconds / 1000);
  return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}

/**
 * When to show each event of a replay, in milliseconds after its start. Events with arrival times keep their pace. Without
 * them the events are spread evenly over `totalMs`.
 * @param {readonly Arrival[]} arrivals
 * @param {number | null} totalMs How long the response took; null if the events have arrival times.
 */
export function paceOf(arrivals, totalMs) {
  if (totalMs === null) return arrivals.map(({ at }) => at);
  return arrivals.map((_, index) => (arrivals.length > 1 ? (index / (arrivals.length - 1)) * totalMs : 0));
}
