/**
 * The difference of two texts: Myers' shortest edit script (1986) over words and the spaces between them.
 * @typedef {{ kind: "same" | "removed" | "added", text: string }} Piece
 */

/** With more edits than this, texts are shown as wholly different: the work grows with the square of the edits. */
const EDITS_MAX = 1500;

/**
 * @param {string} before
 * @param {string} after
 * @returns {Piece[]}
 */
export function diff(before, after) {
  const [a, b] = [wordsOf(before), wordsOf(after)];
  const start = sharedStart(a, b);
  const end = sharedEnd(a, b, start);
  const middle = edits(a.slice(start, a.length - end), b.slice(start, b.length - end));
  return joined([...same(a.slice(0, start)), ...middle, ...same(a.slice(a.length - end))]);
}

/** @param {string} text */
function wordsOf(text) {
  return text.match(/\s+|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu) ?? [];
}

/** @param {string[]} words @returns {Piece[]} */
const same = (words) => words.map((text) => ({ kind: "same", text }));

/** @param {string[]} a @param {string[]} b */
function sharedStart(a, b) {
  let count = 0;
  while (count < a.length && count < b.length && a[count] === b[count]) count += 1;
  return count;
}

/** @param {string[]} a @param {string[]} b @param {number} start */
function sharedEnd(a, b, start) {
  let count = 0;
  const most = Math.min(a.length, b.length) - start;
  while (count < most && a[a.length - 1 - count] === b[b.length - 1 - count]) count += 1;
  return count;
}

/** @param {string[]} a @param {string[]} b @returns {Piece[]} */
function edits(a, b) {
  const rounds = farthestReaches(a, b);
  if (!rounds) return [...a.map(removed), ...b.map(added)];
  const pieces = /** @type {Piece[]} */ ([]);
  let [x, y] = [a.length, b.length];
  for (let round = rounds.length - 1; round > 0; round -= 1) {
    const reach = rounds[round - 1];
    const k = x - y;
    const down = k === -round || (k !== round && at(reach, k - 1) < at(reach, k + 1));
    const fromX = at(reach, down ? k + 1 : k - 1);
    const fromY = fromX - (down ? k + 1 : k - 1);
    while (x > fromX && y > fromY) pieces.push({ kind: "same", text: a[(x -= 1, (y -= 1), x)] });
    pieces.push(down ? added(b[(y -= 1)]) : removed(a[(x -= 1)]));
  }
  while (x > 0 && y > 0) pieces.push({ kind: "same", text: a[(x -= 1, (y -= 1), x)] });
  return pieces.reverse();
}

/** For each number of edits, how far into `a` each diagonal reaches; null if there are more than EDITS_MAX.
 * @param {string[]} a @param {string[]} b @returns {Map<number, number>[] | null} */
function farthestReaches(a, b) {
  const rounds = /** @type {Map<number, number>[]} */ ([]);
  let reach = new Map([[1, 0]]);
  for (let edit = 0; edit <= Math.min(a.length + b.length, EDITS_MAX); edit += 1) {
    const next = new Map();
    for (let k = -edit; k <= edit; k += 2) {
      const down = k === -edit || (k !== edit && at(reach, k - 1) < at(reach, k + 1));
      let x = down ? at(reach, k + 1) : at(reach, k - 1) + 1;
      while (x < a.length && x - k < b.length && a[x] === b[x - k]) x += 1;
      next.set(k, x);
      if (x >= a.length && x - k >= b.length) return [...rounds, next];
    }
    rounds.push(next);
    reach = next;
  }
  return null;
}

/** @param {Map<number, number>} reach @param {number} k */
const at = (reach, k) => reach.get(k) ?? -1;
/** @param {string} text @returns {Piece} */
const removed = (text) => ({ kind: "removed", text });
/** @param {string} text @returns {Piece} */
const added = (text) => ({ kind: "added", text });

/** Joins neighbouring pieces of the same kind. @param {Piece[]} pieces */
function joined(pieces) {
  const found = /** @type {Piece[]} */ ([]);
  for (const piece of pieces) {
    const last = found.at(-1);
    if (last?.kind === piece.kind) last.text += piece.text;
    else found.push({ ...piece });
  }
  return found;
}
