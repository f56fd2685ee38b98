/**
 * Parses the JSON that a user types, and finds the position of a mistake. The errors of browsers differ, and some have no
 * position, so a parser of its own looks for the mistake.
 * @import { Mistake } from "../../types"
 */

const SPACE = /[ \t\n\r]*/y;
const SCALAR = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null/y;
const STRING = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;

/**
 * @param {string} text
 * @param {Mistake["field"]} field
 * @returns {{ value: any, mistake: Mistake | null }}
 */
export function parseJson(text, field) {
  try {
    return { value: JSON.parse(text), mistake: null };
  } catch {
    const { position, wanted } = firstMistake(text);
    return { value: undefined, mistake: { field, message: `Expected ${wanted}.`, ...placeAt(text, position) } };
  }
}

/** @param {string} text @param {number} position */
export function placeAt(text, position) {
  const before = text.slice(0, position).split("\n");
  return { line: before.length, column: before[before.length - 1].length + 1 };
}

/** The first position at which a text is not JSON, and what was expected there. It is a state machine without recursion, so
 * that deep nesting cannot overflow the stack.
 * @param {string} text */
export function firstMistake(text) {
  const open = /** @type {string[]} */ ([]);
  let position = 0;
  for (let state = "value"; ; ) {
    position += lengthOf(SPACE, text, position);
    const here = text[position];
    const step = stepOf(state, here, open, text, position);
    if (step === null) return { position, wanted: WANTED[state] ?? (open.at(-1) === "{" ? ", or }" : ", or ]") };
    if (step.opens) open.push(here);
    if (step.closes) open.pop();
    position += step.length;
    state = step.next === "after" ? (open.length > 0 ? "more" : "end") : step.next;
  }
}

/** The length of the token at a position and the state after it; null if no valid token is there.
 * @param {string} state @param {string | undefined} here @param {string[]} open @param {string} text @param {number} position
 * @returns {{ next: string, length: number, opens?: boolean, closes?: boolean } | null} */
function stepOf(state, here, open, text, position) {
  const closing = open.at(-1) === "{" ? "}" : "]";
  if (CLOSING.has(state) && open.length > 0 && here === closing) return { next: "after", length: 1, closes: true };
  if (state.startsWith("value") && here === "{") return { next: "name or }", length: 1, opens: true };
  if (state.startsWith("value") && here === "[") return { next: "value or ]", length: 1, opens: true };
  if (state === ":" && here === ":") return { next: "value", length: 1 };
  if (state === "more" && here === ",") return { next: closing === "}" ? "name" : "value", length: 1 };
  const pattern = state.startsWith("value") ? SCALAR : state.startsWith("name") ? STRING : null;
  const length = pattern ? lengthOf(pattern, text, position) : 0;
  return length > 0 ? { next: pattern === SCALAR ? "after" : ":", length } : null;
}

/** @param {RegExp} pattern @param {string} text @param {number} position */
function lengthOf(pattern, text, position) {
  pattern.lastIndex = position;
  return pattern.exec(text)?.[0].length ?? 0;
}

const CLOSING = new Set(["value or ]", "name or }", "more"]);
const WANTED = /** @type {Record<string, string>} */ ({
  value: "a value",
  "value or ]": "a value or ]",
  name: "a name in double quotes",
  "name or }": "a name in double quotes, or }",
  ":": "a colon",
  end: "the end",
});
