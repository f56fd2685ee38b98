/** Differences between the requests of two responses. @import { Response } from "../../types" */

const MEMBERS = [
  "model", "instructions", "temperature", "top_p", "max_output_tokens", "reasoning", "tools", "tool_choice", "text",
  "previous_response_id", "background", "truncation", "metadata",
];

/** @param {Response} left @param {Response} right @returns {{ name: string, left: string, right: string }[]} */
export function differences(left, right) {
  return MEMBERS.map((name) => ({ name, left: shown(left[name]), right: shown(right[name]) })).filter((row) => row.left !== row.right);
}

/** @param {unknown} value */
function shown(value) {
  if (value === null || value === undefined) return "–";
  return typeof value === "string" ? value : JSON.stringify(value);
}
