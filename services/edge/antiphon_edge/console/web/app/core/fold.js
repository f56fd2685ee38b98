/**
 * Builds a response from its events. `fold(events)` equals what the API returns for the response.
 * @import { ApiEvent, Fields, Response } from "../../types"
 */

import { DELTAS, ITEMS, PARTS } from "./event-table.js";

export const UNFINISHED = new Set(["queued", "in_progress"]);

/**
 * Applies one event. The response is changed in place, and returned.
 * @param {Response | null} response
 * @param {ApiEvent} event
 * @returns {Response | null}
 */
export function apply(response, event) {
  if (event.response) return structuredClone(event.response);
  if (response === null) return null;
  const { type } = event;
  if (ITEMS.has(type)) {
    response.output[event.output_index] = structuredClone(event.item);
  } else if (type in PARTS) {
    const item = response.output[event.output_index];
    (item[PARTS[type]] ??= [])[indexOf(event)] = structuredClone(event.part);
  } else if (type in DELTAS) {
    addDelta(response, event, ...DELTAS[type]);
  }
  return response;
}

/**
 * @param {Iterable<ApiEvent>} events
 * @returns {Response | null}
 */
export function fold(events) {
  let response = /** @type {Response | null} */ (null);
  for (const event of events) response = apply(response, event);
  return response;
}

/**
 * @param {Response} response
 * @param {ApiEvent} event
 * @param {string} list
 * @param {string} member
 */
function addDelta(response, event, list, member) {
  const item = response.output[event.output_index];
  const target = /** @type {Fields} */ (list === "" ? item : item[list][indexOf(event)]);
  target[member] = (target[member] ?? "") + event.delta;
}

/** @param {ApiEvent} event */
function indexOf(event) {
  return event.content_index ?? event.summary_index ?? 0;
}
