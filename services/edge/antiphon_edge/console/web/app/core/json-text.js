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

/** What opens, and what may follow in it: a table of states, so that no depth of a text is too deep.
 * @param {string} text */
export function firstMistake(text) {
  const open = /** @type {string[]} */ ([]);
  let position = 0;
  let state = "value";
  const take = (/** @type {RegExp} */ pattern) => {
    pattern.lastIndex = position;
    const found = pattern.exec(text)?.[0] ?? "";
    position += found.length;
    return found;
  };
  for (;;) {
    take(SPACE);
    const here = text[position];
    if (state === "end") return { position, wanted: "the end" };
    if (state === "value" || state === "value or ]") {
      if (here === "{" || here === "[") {
        open.push(here);
        position += 1;
        state = here === "{" ? "name or }" : "value or ]";
        continue;
      }
      if (!(here === "]" && state === "value or ]")) {
        if (!take(SCALAR)) return { position, wanted: state === "value" ? "a value" : "a value or ]" };
        state = open.length > 0 ? "more" : "end";
        continue;
      }
    }
    if ((state === "name" || (state === "name or }" && here !== "}")) && take(STRING)) {
      state = ":";
      continue;
    }
    const closing = open.at(-1) === "{" ? "}" : "]";
    const closes = here === closing && state !== "name" && state !== ":";
    if (closes) open.pop();
    if (closes) state = open.length > 0 ? "more" : "end";
    else if (state === ":" && here === ":") state = "value";
    else if (state === "more" && here === ",") state = closing === "}" ? "name" : "value";
    else return { position, wanted: WANTED[state] ?? `, or ${closing}` };
    position += 1;
  }
}

const WANTED = /** @type {Record<string, string>} */ ({
  name: 'a name in double quotes',
  "name or }": 'a name in double quotes, or }',
  ":": "a colon",
});
