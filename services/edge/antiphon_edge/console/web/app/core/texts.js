/**
 * Texts of items and responses, for display.
 * @import { Fields, Item, Response } from "../../types"
 */

/** The first half of a character that needs two UTF-16 units, at the end of a text. */
const HALF = /[\ud800-\udbff]$/;

/** The text of an item's content, including refusals. @param {Item} item @returns {string} */
export function textOf(item) {
  if (typeof item.content === "string") return item.content;
  return (item.content ?? []).map((/** @type {Fields} */ part) => part.text ?? part.refusal ?? "").join("");
}

/** The reasoning of an item, from its text or its summary. @param {Item} item */
export function reasoningOf(item) {
  return [...(item.content ?? []), ...(item.summary ?? [])].map((part) => part.text ?? "").join("\n\n");
}

/** The text of all messages in a response. @param {Response} response */
export function answerOf(response) {
  return response.output.filter((item) => item.type === "message").map(textOf).join("\n\n");
}

/** One line about a response, for cards and lists. @param {Response} response */
export function summaryOf(response) {
  const said = answerOf(response).trim();
  if (said) return oneLine(unmarked(said));
  const calls = response.output.filter((item) => item.type.endsWith("_call"));
  if (calls.length > 0) return calls.map((call) => `${toolOf(call)}(${oneLine(argumentsOf(call))})`).join(" ");
  return oneLine(response.error?.message ?? "");
}

/** The name of the tool that is called. A call of a shell, a patch or a computer has only its type. @param {Item} call @returns {string} */
export const toolOf = (call) => call.name ?? call.type.replace(/_call$/, "");

/** What a call asks of its tool: text, or the JSON of a command, a patch or an action. @param {Item} call */
export function argumentsOf(call) {
  return stringOf(call.arguments ?? call.input ?? call.action ?? call.actions ?? call.operation ?? "");
}

/** A text as it is, another value as JSON. @param {unknown} value @returns {string} */
export const stringOf = (value) => (typeof value === "string" ? value : (JSON.stringify(value, null, 2) ?? ""));

/** Removes Markdown marks that are of no use in one line. @param {string} text */
function unmarked(text) {
  return text.replace(/^#+ |\*\*|\*(?=\S)|(?<=\S)\*|`+|^[|\s:-]+$|\|/gm, "");
}

/** @param {string} text @param {number} [most] */
export const oneLine = (text, most = 160) => cut(text.replace(/\s+/g, " ").trim(), most);

/** The beginning of a text. @param {string} text @param {number} most */
export const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1).replace(HALF, "")}…` : text);

/** One line about the input of a user. @param {readonly Item[]} items */
export function askedOf(items) {
  const last = items.findLast((item) => item.type === "message" || item.type === undefined);
  if (last) return oneLine(textOf(last)) || "(image or file)";
  const output = items.findLast((item) => typeof item.output === "string");
  return output ? oneLine(output.output) : "";
}

/** The last characters of an id, enough to distinguish neighbouring nodes. @param {string} id */
export const shortId = (id) => `…${id.slice(-6)}`;
