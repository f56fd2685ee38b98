/**
 * Builds a response from its events. `fold(events)` equals what the API returns for the response.
 * @import { ApiEvent, Fields, Response } from "../../types"
 */

export const TERMINAL = new Set(["response.completed", "response.failed", "response.incomplete", "response.cancelled"]);
export const UNFINISHED = new Set(["queued", "in_progress"]);

/** For each delta event the list of parts and the member that the delta extends. Without a list it is a member of the item. */
const DELTAS = /** @type {Record<string, [string, string]>} */ ({
  "response.output_text.delta": ["content", "text"],
  "response.refusal.delta": ["content", "refusal"],
  "response.reasoning_text.delta": ["content", "text"],
  "response.reasoning_summary_text.delta": ["summary", "text"],
  "response.function_call_arguments.delta": ["", "arguments"],
  "response.custom_tool_call_input.delta": ["", "input"],
});
const PARTS = /** @type {Record<string, string>} */ ({
  "response.content_part.added": "content",
  "response.content_part.done": "content",
  "response.reasoning_summary_part.added": "summary",
  "response.reasoning_summary_part.done": "summary",
});

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
  if (type === "response.output_item.added" || type === "response.output_item.done") {
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
