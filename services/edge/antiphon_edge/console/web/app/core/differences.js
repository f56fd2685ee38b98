/** Differences between the requests of two responses. @import { Item, Response } from "../../types" */
import { cut } from "./texts.js";

const MEMBERS = [
  "model", "input", "instructions", "prompt", "temperature", "top_p", "presence_penalty", "frequency_penalty", "top_logprobs",
  "max_output_tokens", "max_tool_calls", "reasoning", "tools", "tool_choice", "parallel_tool_calls", "text", "conversation",
  "previous_response_id", "background", "store", "truncation", "service_tier", "metadata",
];
const SHOWN_MAX = 2000;

/** @typedef {Response & { input?: readonly Item[] | null }} Asked A response with its input, if that was loaded. */

/** @param {Asked} left @param {Asked} right @returns {{ name: string, left: string, right: string }[]} */
export function differences(left, right) {
  return MEMBERS.map((name) => ({ name, left: shown(valueOf(left, name)), right: shown(valueOf(right, name)) }))
    .filter((row) => row.left !== row.right)
    .map(({ name, left: one, right: other }) => ({ name, left: cut(one, SHOWN_MAX), right: cut(other, SHOWN_MAX) }));
}

/** A member of a request. Items get new ids in each response, which are no difference. @param {Asked} response @param {string} name */
function valueOf(response, name) {
  return name === "input" ? response.input?.map(({ id, status, ...item }) => item) : response[name];
}

/** @param {unknown} value */
function shown(value) {
  if (value === null || value === undefined) return "–";
  return typeof value === "string" ? value : JSON.stringify(value);
}
