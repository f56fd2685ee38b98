/** The events of a response. Written by `make docs` from antiphon_core.events. */

/** For each delta the list of parts and the member that it extends; no list for a member of the item. */
export const DELTAS = /** @type {Record<string, [string, string]>} */ ({
  "response.output_text.delta": ["content", "text"],
  "response.refusal.delta": ["content", "refusal"],
  "response.reasoning_text.delta": ["content", "text"],
  "response.reasoning_summary_text.delta": ["summary", "text"],
  "response.function_call_arguments.delta": ["", "arguments"],
  "response.custom_tool_call_input.delta": ["", "input"],
  "response.mcp_call_arguments.delta": ["", "arguments"],
});

/** For each event with a part the list that has the part. */
export const PARTS = /** @type {Record<string, string>} */ ({
  "response.content_part.added": "content",
  "response.content_part.done": "content",
  "response.reasoning_summary_part.added": "summary",
  "response.reasoning_summary_part.done": "summary",
});

export const ITEMS = new Set([
  "response.output_item.added",
  "response.output_item.done",
]);

export const TERMINAL = new Set([
  "response.completed",
  "response.incomplete",
  "response.failed",
  "response.cancelled",
]);
