/**
 * JSON that people write in a field, and where in its text a mistake is.
 * @import { Mistake, Settings } from "../../types"
 */

/**
 * @param {string} text
 * @param {Mistake["field"]} field
 * @returns {{ value: any, mistake: Mistake | null }}
 */
export function parseJson(text, field) {
  try {
    return { value: JSON.parse(text), mistake: null };
  } catch (error) {
    return { value: undefined, mistake: { field, message: reasonOf(error), ...placeOf(text, error) } };
  }
}

/** @param {unknown} error */
function reasonOf(error) {
  const said = error instanceof Error ? error.message : String(error);
  return said.replace(/^JSON\.parse: /, "").replace(/,? (in JSON )?at (position|line) .*$/, "").replace(/, "[\s\S]*$/, "");
}

/** Where the parser stopped. Browsers say it in their own words: a position, or a line and a column.
 * @param {string} text @param {unknown} error */
function placeOf(text, error) {
  const said = error instanceof Error ? error.message : "";
  const pair = /line (\d+) column (\d+)/.exec(said);
  if (pair) return { line: Number(pair[1]), column: Number(pair[2]) };
  const position = /position (\d+)/.exec(said);
  return placeAt(text, position ? Number(position[1]) : text.length);
}

/** @param {string} text @param {number} position */
export function placeAt(text, position) {
  const before = text.slice(0, position).split("\n");
  return { line: before.length, column: before[before.length - 1].length + 1 };
}
