/**
 * Exports a branch: as JSON Lines with one response per line, or as Markdown.
 * @import { Fields, Item, Response } from "../../types"
 */
import { argumentsOf, reasoningOf, stringOf, textOf, toolOf } from "./texts.js";

/** @typedef {{ response: Response, input: readonly Item[] }} Turn */

/** @param {readonly Turn[]} turns */
export function jsonLines(turns) {
  return turns.map(({ response, input }) => JSON.stringify({ ...response, input }) + "\n").join("");
}

/** @param {readonly Turn[]} turns */
export function markdown(turns) {
  return turns.map(({ response, input }) => [...input.map(section), ...response.output.map(section)].join("\n")).join("\n");
}

/** @param {Item} item */
function section(item) {
  if (item.type === "message" || item.type === undefined) return `## ${item.role ?? "assistant"}\n\n${contentOf(item)}\n`;
  if (item.type === "reasoning") return `## reasoning\n\n${quoted(reasoningOf(item))}\n`;
  if (item.type.endsWith("_call_output")) return `## output of ${item.call_id}\n\n${fenced(stringOf(item.output))}\n`;
  if (item.type.endsWith("_call") && !("output" in item)) return `## call of ${toolOf(item)}\n\n${fenced(argumentsOf(item))}\n`;
  return `## ${item.type}\n\n${fenced(JSON.stringify(item, null, 2))}\n`;
}

/** The text of a message, and then its images and files. @param {Item} item */
function contentOf(item) {
  const parts = Array.isArray(item.content) ? item.content : [];
  return [textOf(item), ...parts.map(attachment)].filter(Boolean).join("\n\n");
}

/** An image or a file as a link to its data or address, with its name and type. Nothing for a text. @param {Fields} part */
function attachment(part) {
  const url = part.image_url ?? part.file_data ?? part.file_url;
  if (!url) return "";
  const type = /^data:([^;,]+)/.exec(url)?.[1];
  const name = (part.filename ?? (part.image_url ? "image" : "file")) + (type ? ` (${type})` : "");
  const label = name.replace(/\s+/g, " ").replace(/[\\[\]]/g, "\\$&");
  return `${part.image_url ? "!" : ""}[${label}](<${url.replace(/[<>\s]/g, encodeURIComponent)}>)`;
}

/** @param {string} text */
const quoted = (text) => text.split("\n").map((line) => `> ${line}`).join("\n");

/** A code block with a fence that is longer than any in the text. @param {string} text */
function fenced(text) {
  const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map(([run]) => run.length));
  const fence = "`".repeat(longest + 1);
  return `${fence}\n${text}\n${fence}`;
}
