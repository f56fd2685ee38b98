/**
 * Parses Markdown of models into a tree of plain objects. It is never rendered as HTML source: a text can only become the
 * elements listed here, with text in them.
 *
 * @typedef {{ kind: "text", text: string } | { kind: "code", text: string } | { kind: "strong" | "em" | "del", inside: Inline[] }
 *   | { kind: "link", href: string, inside: Inline[] } | { kind: "break" }} Inline
 * @typedef {{ kind: "paragraph", inside: Inline[] } | { kind: "heading", level: number, inside: Inline[] }
 *   | { kind: "code", language: string, text: string } | { kind: "quote", blocks: Block[] } | { kind: "rule" }
 *   | { kind: "list", ordered: boolean, start: number, items: Block[][] }
 *   | { kind: "table", head: Inline[][], rows: Inline[][][] }} Block
 */

/** Backticks are only a fence if no other backtick is on their line; otherwise they are code within a line. */
const FENCE = /^ {0,3}(`{3,}(?=[^`]*$)|~{3,})\s*([\w+-]*)/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*)$/s;
const CLOSING_HASHES = /(?<!\S)#+$/;
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])( +|$)/;
const QUOTE = /^ {0,3}> ?/;
const TABLE_RULE = /^\|?(?: *:?-+:? *\|)+ *(?::?-+:?)?$/;
const PIPE = /(?<!\\)\|/;
const DEPTH_MAX = 12;

/**
 * @param {string} text
 * @param {number} [depth]
 * @returns {Block[]}
 */
export function parse(text, depth = 0) {
  const lines = text.replaceAll("\r\n", "\n").split("\n");
  const blocks = /** @type {Block[]} */ ([]);
  for (let at = 0; at < lines.length; ) {
    if (lines[at].trim() === "") at += 1;
    else at = readBlock(lines, at, blocks, depth);
  }
  return blocks;
}

/** Reads the block that begins at a line. Returns the line at which the next block may begin.
 * @param {string[]} lines @param {number} at @param {Block[]} blocks @param {number} depth @returns {number} */
function readBlock(lines, at, blocks, depth) {
  const line = lines[at];
  const heading = HEADING.exec(line);
  if (FENCE.test(line)) return readFence(lines, at, blocks);
  if (heading) return blocks.push({ kind: "heading", level: heading[1].length, inside: inline(titleOf(heading[2])) }), at + 1;
  if (RULE.test(line)) return blocks.push({ kind: "rule" }), at + 1;
  if (depth < DEPTH_MAX && QUOTE.test(line)) return readQuote(lines, at, blocks, depth);
  if (depth < DEPTH_MAX && ITEM.test(line)) return readList(lines, at, blocks, depth);
  if (line.includes("|") && TABLE_RULE.test((lines[at + 1] ?? "").trim())) return readTable(lines, at, blocks);
  return readParagraph(lines, at, blocks);
}

/** @param {string} text */
const titleOf = (text) => text.trimEnd().replace(CLOSING_HASHES, "").trimEnd();

/** @param {string[]} lines @param {number} at @param {Block[]} blocks */
function readFence(lines, at, blocks) {
  const [, fence, language] = /** @type {RegExpExecArray} */ (FENCE.exec(lines[at]));
  let end = at + 1;
  while (end < lines.length && !closes(lines[end].trim(), fence)) end += 1;
  blocks.push({ kind: "code", language, text: lines.slice(at + 1, end).join("\n") });
  return end + 1;
}

/** Whether a line ends a code block: it has nothing but the fence, which may be longer. @param {string} line @param {string} fence */
const closes = (line, fence) => line.startsWith(fence) && line.replaceAll(fence[0], "") === "";

/** @param {string[]} lines @param {number} at @param {Block[]} blocks @param {number} depth */
function readQuote(lines, at, blocks, depth) {
  let end = at;
  while (end < lines.length && QUOTE.test(lines[end])) end += 1;
  const inside = lines.slice(at, end).map((line) => line.replace(QUOTE, ""));
  blocks.push({ kind: "quote", blocks: parse(inside.join("\n"), depth + 1) });
  return end;
}

/** @param {string[]} lines @param {number} at @param {Block[]} blocks @param {number} depth */
function readList(lines, at, blocks, depth) {
  const marker = /** @type {RegExpExecArray} */ (ITEM.exec(lines[at]))[2];
  const ordered = /\d/.test(marker);
  const items = /** @type {string[][]} */ ([]);
  let end = at;
  let width = 0;
  for (; end < lines.length; end += 1) {
    const found = ITEM.exec(lines[end]);
    const indent = lines[end].length - lines[end].trimStart().length;
    if (found && (end === at || indent < Math.max(width, 2)) && /\d/.test(found[2]) === ordered) {
      width = found[0].length;
      items.push([lines[end].slice(width)]);
    } else if (lines[end].trim() === "" && isInList(lines[end + 1] ?? "", width)) {
      items.at(-1)?.push("");
    } else if (items.length > 0 && (indent >= Math.min(width, 2) || (lines[end].trim() !== "" && !endsList(lines[end])))) {
      items.at(-1)?.push(lines[end].slice(Math.min(indent, width)));
    } else break;
  }
  const read = items.map((item) => parse(item.join("\n"), depth + 1));
  blocks.push({ kind: "list", ordered, start: ordered ? parseInt(marker, 10) : 1, items: read });
  return end;
}

/** @param {string} line @param {number} width */
const isInList = (line, width) => ITEM.test(line) || (line.trim() !== "" && /^ {2,}/.test(line) && width > 0);
/** @param {string} line */
const endsList = (line) => HEADING.test(line) || FENCE.test(line) || RULE.test(line) || QUOTE.test(line) || ITEM.test(line);

/** @param {string[]} lines @param {number} at @param {Block[]} blocks */
function readTable(lines, at, blocks) {
  let end = at + 2;
  while (end < lines.length && lines[end].includes("|")) end += 1;
  blocks.push({ kind: "table", head: cellsOf(lines[at]), rows: lines.slice(at + 2, end).map(cellsOf) });
  return end;
}

/** The cells of a row. An escaped pipe is a pipe within a cell, also within code. @param {string} line */
const cellsOf = (line) =>
  line.trim().replace(/^\||(?<!\\)\|$/g, "").split(PIPE).map((cell) => inline(cell.trim().replaceAll("\\|", "|")));

/** @param {string[]} lines @param {number} at @param {Block[]} blocks */
function readParagraph(lines, at, blocks) {
  let end = at + 1;
  while (end < lines.length && lines[end].trim() !== "" && !endsList(lines[end])) end += 1;
  blocks.push({ kind: "paragraph", inside: inline(lines.slice(at, end).join("\n")) });
  return end;
}

const INLINE = new RegExp(
  [
    /\\([!-/:-@[-`{-~])/, // 1: an escaped character
    /(?<!`)(`+)(?!`)([^`]|[^`][\s\S]{0,2000}?[^`])\2(?!`)/, // 2, 3: code
    /!?\[([^\]\n]{0,2000})\]\((<[^>\n]*>|[^()\s]*(?:\([^()\s]*\)[^()\s]*)*)(?:\s+"[^"\n]*")?\)/, // 4, 5: a link
    /(https?:\/\/[^\s<>"')\]]+[^\s<>"')\].,;:!?])/, // 6: a URL
    /\*\*([^*\n][\s\S]{0,1000}?)\*\*(?!\*)/, // 7: strong
    /\*([^*\s][^*]{0,1000}?)\*/, // 8: emphasis
    /(?<![\p{L}\p{N}_])_([^_\s][^_]{0,1000}?)_(?![\p{L}\p{N}_])/u, // 9: emphasis
    /~~([^~\n]{1,4000})~~/, // 10: deleted
    /(?:(?<! ) {2,}|\\)\n/, // a new line
  ].map((each) => each.source).join("|"),
  "gu",
);

/** @param {string} text @param {number} [depth] @returns {Inline[]} */
export function inline(text, depth = 0) {
  if (depth > DEPTH_MAX) return [{ kind: "text", text }];
  const found = /** @type {Inline[]} */ ([]);
  let at = 0;
  for (const match of text.matchAll(INLINE)) {
    if (match.index > at) found.push({ kind: "text", text: text.slice(at, match.index) });
    found.push(...pieceOf(match, depth + 1));
    at = match.index + match[0].length;
  }
  if (at < text.length) found.push({ kind: "text", text: text.slice(at) });
  return found;
}

/** @param {RegExpMatchArray} match @param {number} depth @returns {Inline[]} */
function pieceOf(match, depth) {
  const [whole, escaped, , code, label, target, address, strong, star, underscore, deleted] = match;
  if (escaped !== undefined) return [{ kind: "text", text: escaped }];
  if (code !== undefined) return [{ kind: "code", text: code.trim() || code }];
  if (label !== undefined) return linkOf(label, target.replace(/^<|>$/g, ""), depth) ?? [{ kind: "text", text: whole }];
  if (address !== undefined) return [{ kind: "link", href: address, inside: [{ kind: "text", text: address }] }];
  if (strong !== undefined) return [{ kind: "strong", inside: inline(strong, depth) }];
  if (star ?? underscore) return [{ kind: "em", inside: inline(star ?? underscore, depth) }];
  if (deleted !== undefined) return [{ kind: "del", inside: inline(deleted, depth) }];
  return [{ kind: "break" }];
}

/** A link, or null if it is not to http, https or mailto: no `javascript:`, no `data:`, no path of this server.
 * @param {string} label @param {string} target @param {number} depth @returns {Inline[] | null} */
function linkOf(label, target, depth) {
  if (!/^(https?:\/\/|mailto:)/i.test(target)) return null;
  return [{ kind: "link", href: target, inside: inline(label || target, depth) }];
}
