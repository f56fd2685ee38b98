/**
 * A cache of the responses that this tab has seen: their content, the requests sent for them, and their events.
 * @import { Arrival, ApiEvent, Fields, Item, Response } from "../../types"
 */
import { signal } from "@preact/signals";
import { ApiError } from "../core/errors.js";
import { apply, UNFINISHED } from "../core/fold.js";
import { api } from "./session.js";

/**
 * @typedef {object} Entry
 * @property {string} id
 * @property {Response | null} response
 * @property {Item[] | null} input
 * @property {Arrival[]} arrivals
 * @property {number | null} startedAt When the request was sent; arrivals are relative to it.
 * @property {Fields | null} sent
 * @property {string | null} requestId
 * @property {string | null} traceId
 * @property {unknown} error
 */

const REQUESTS_MAX = 6;
/** The pause after a rate limit that names none. */
const RATE_LIMIT_PAUSE_S = 5;
/** @type {Map<string, { entry: Entry, changes: import("@preact/signals").Signal<number> }>} */
const known = new Map();
/** @type {(() => void)[]} */
const waiting = [];
/** @type {Set<string>} */
const changed = new Set();
let running = 0;
let pausedUntil = 0;

/** @param {string} id @returns {Entry} */
const empty = (id) => ({ id, response: null, input: null, arrivals: [], startedAt: null, sent: null, requestId: null, traceId: null, error: null });

/** @param {string} id */
function cell(id) {
  let found = known.get(id);
  if (!found) known.set(id, (found = { entry: empty(id), changes: signal(0) }));
  return found;
}

/** The entry of a response. A view that reads it is drawn again when the entry changes. @param {string} id @returns {Entry} */
export function read(id) {
  const found = cell(id);
  void found.changes.value;
  return found.entry;
}

/** The entry of a response, without subscribing to its changes. @param {string} id @returns {Entry} */
export const peek = (id) => cell(id).entry;

/** @param {string} id @param {Partial<Entry>} changes */
export function note(id, changes) {
  Object.assign(cell(id).entry, changes);
  cell(id).changes.value += 1;
}

/** Removes all content of a response that was deleted. @param {string} id */
export const forget = (id) => note(id, empty(id));

/** Applies an event. Views are drawn again once per animation frame, since tokens come faster.
 * @param {string} id @param {ApiEvent} event */
export function take(id, event) {
  const { entry } = cell(id);
  entry.startedAt ??= performance.now();
  entry.arrivals.push({ event, at: performance.now() - entry.startedAt });
  entry.response = apply(entry.response, event);
  if (changed.size === 0) requestAnimationFrame(flush);
  changed.add(id);
}

function flush() {
  for (const id of changed) cell(id).changes.value += 1;
  changed.clear();
}

/** Loads a response that is not in the cache, or that still ran elsewhere when it was loaded. At most REQUESTS_MAX loads run
 * at once; others wait. A load that meets a rate limit is repeated after it. One that failed is repeated by the next call,
 * unless the server does not have the response.
 * @param {string} id @param {{ fresh?: boolean }} [options] */
export async function load(id, { fresh = false } = {}) {
  const { entry } = cell(id);
  if (entry.error && isIncomplete(entry) && !isAbsent(id)) note(id, { error: null });
  while (fresh || (isIncomplete(entry) && !entry.error)) {
    await turn();
    try {
      return await loadOnce(entry, fresh);
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 429) return note(id, { error });
      pausedUntil = Date.now() + 1000 * (error.retryAfterSeconds ?? RATE_LIMIT_PAUSE_S);
    } finally {
      running -= 1;
      waiting.shift()?.();
    }
  }
}

/** Whether a part is missing, or the end of a response whose events do not come to this tab.
 * @param {Entry} entry */
const isIncomplete = (entry) => !entry.input || !entry.response || mayHaveEnded(entry);

/** @param {Entry} entry */
const mayHaveEnded = ({ response, sent, arrivals }) => UNFINISHED.has(response?.status ?? "") && !sent && arrivals.length === 0;

/** Whether the server answered that it does not have a response. @param {string} id */
export function isAbsent(id) {
  const { error } = peek(id);
  return error instanceof ApiError && error.status === 404;
}

/** Requests what is missing. If events came meanwhile, the response that they describe is newer, and stays.
 * @param {Entry} entry @param {boolean} fresh */
async function loadOnce(entry, fresh) {
  const before = entry.response;
  const wanted = !fresh && before && !mayHaveEnded(entry) ? before : api.response(entry.id);
  const [found, input] = await Promise.all([wanted, entry.input ?? api.inputItems(entry.id)]);
  note(entry.id, { response: fresh || entry.response === before ? found : entry.response, input, error: null });
}

/** Waits for a free request slot, and for the end of a rate limit. */
async function turn() {
  if (running >= REQUESTS_MAX) await new Promise((resolve) => waiting.push(() => resolve(undefined)));
  running += 1;
  const pause = pausedUntil - Date.now();
  if (pause > 0) await new Promise((resolve) => setTimeout(resolve, pause));
}
