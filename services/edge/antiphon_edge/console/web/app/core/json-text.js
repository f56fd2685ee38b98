/**
 * JSON that people write in a field, and where in its text a mistake is. Browsers tell that in their own words, and some
 * not at all, so the place is looked for here.
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

/** The first place at which a text stops being JSON, and what was wanted there. It goes by a table of states, so that no
 * text is nested too deeply for it.
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

/** The length of the token at a place and the state behind it; null where no token may stand.
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
