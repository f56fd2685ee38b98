/**
 * Tree layout: levels below each other, parents centred over their children, no overlaps.
 *
 * The algorithm of Reingold and Tilford (1981): subtrees become blocks with an outline, and each is moved to the left until
 * it touches its neighbour. It takes time linear in the number of nodes. It uses no recursion, since a chain of 5,000 turns
 * would overflow the stack.
 * @import { Placed, Rectangle, Spot } from "../../types"
 */
import { spots } from "./collapse.js";

export const CARD = { width: 208, height: 68 };
export const GAP = { x: 24, y: 44 };
export const RUN_HEIGHT = 40;
const STEP = { x: CARD.width + GAP.x, y: CARD.height + GAP.y };

/** The positions of all spots in pixels, with an index for the spots in a rectangle. */
export class Layout {
  /** @type {Map<string, Placed>} */
  byId = new Map();
  /** The spots of each level, from left to right. @type {Placed[][]} */
  levels = [];
  width = 0;
  height = 0;

  /** @param {Spot | null} root */
  constructor(root) {
    if (!root) return;
    for (const { spot, column } of columnsOf(root)) {
      const placed = { spot, x: column * STEP.x, y: spot.level * STEP.y };
      for (const id of spot.ids) this.byId.set(id, placed);
      (this.levels[spot.level] ??= []).push(placed);
      this.width = Math.max(this.width, placed.x + CARD.width);
    }
    for (const level of this.levels) level.sort((one, other) => one.x - other.x);
    this.height = this.levels.length * STEP.y - GAP.y;
  }

  /** The spots that touch a rectangle. @param {Rectangle} area @returns {Placed[]} */
  within(area) {
    const first = Math.max(0, Math.ceil((area.top - CARD.height) / STEP.y));
    const last = Math.min(this.levels.length - 1, Math.floor(area.bottom / STEP.y));
    const found = [];
    for (let level = first; level <= last; level += 1) {
      const row = this.levels[level];
      for (let index = firstAtLeast(row, area.left - CARD.width); index < row.length; index += 1) {
        if (row[index].x > area.right) break;
        found.push(row[index]);
      }
    }
    return found;
  }
}

/**
 * @param {Spot} root
 * @returns {{ spot: Spot, column: number }[]} parents first
 */
function columnsOf(root) {
  const blocks = new Map(/** @type {[Spot, Block][]} */ ([]));
  for (const spot of childrenFirst(root)) {
    blocks.set(spot, blockOver(spot.children.map((child) => /** @type {Block} */ (blocks.get(child)))));
  }
  const frames = new Map(/** @type {[Spot | null, number][]} */ ([[null, 0]]));
  const found = [];
  let leftmost = 0;
  for (const spot of spots(root)) {
    const block = /** @type {Block} */ (blocks.get(spot));
    const frame = (frames.get(spot.parent) ?? 0) + block.shift;
    frames.set(spot, frame);
    found.push({ spot, column: frame + block.x });
    leftmost = Math.min(leftmost, frame + block.x);
  }
  return found.map(({ spot, column }) => ({ spot, column: column - leftmost }));
}

/**
 * A subtree as a block: the column of its root, its outlines on both sides, and how far its parent moved it.
 * @typedef {{ x: number, left: Outline, right: Outline, shift: number }} Block
 */

/** Columns by level, the deepest first, so that a new top is appended. An offset moves all of them at once. */
class Outline {
  /** @param {number[]} columns @param {number} offset */
  constructor(columns = [], offset = 0) {
    this.columns = columns;
    this.offset = offset;
  }

  get depth() {
    return this.columns.length;
  }

  /** The column `level` levels below the top. @param {number} level */
  at(level) {
    return this.columns[this.columns.length - 1 - level] + this.offset;
  }

  /** Takes the columns of `upper` for its levels, and keeps its own below them. @param {Outline} upper */
  below(upper) {
    for (let level = 0; level < upper.depth; level += 1) {
      this.columns[this.columns.length - 1 - level] = upper.at(level) - this.offset;
    }
    return this;
  }

  /** @param {number} by */
  moved(by) {
    return new Outline(this.columns, this.offset + by);
  }

  /** @param {number} column */
  raise(column) {
    this.columns.push(column - this.offset);
  }
}

/** The block of a node: moves the blocks of its children together, and puts the node over them. @param {Block[]} children @returns {Block} */
function blockOver(children) {
  if (children.length === 0) return { x: 0, left: new Outline([0]), right: new Outline([0]), shift: 0 };
  let { left, right } = children[0];
  for (const child of children.slice(1)) {
    child.shift = distance(right, child.left);
    const [itsLeft, itsRight] = [child.left.moved(child.shift), child.right.moved(child.shift)];
    left = itsLeft.depth > left.depth ? itsLeft.below(left) : left;
    right = right.depth > itsRight.depth ? right.below(itsRight) : itsRight;
  }
  const last = children[children.length - 1];
  const x = (children[0].x + last.x + last.shift) / 2;
  left.raise(x);
  right.raise(x);
  return { x, left, right, shift: 0 };
}

/** How far the left outline of a block must move to be right of another block. @param {Outline} right @param {Outline} left */
function distance(right, left) {
  let most = -Infinity;
  for (let level = 0; level < Math.min(right.depth, left.depth); level += 1) {
    most = Math.max(most, right.at(level) + 1 - left.at(level));
  }
  return most;
}

/** All spots, children before their parents, from left to right. @param {Spot} root */
function* childrenFirst(root) {
  const open = [{ spot: root, next: 0 }];
  while (open.length > 0) {
    const top = open[open.length - 1];
    if (top.next < top.spot.children.length) {
      open.push({ spot: top.spot.children[top.next], next: 0 });
      top.next += 1;
    } else {
      yield top.spot;
      open.pop();
    }
  }
}

/** The index of the first spot at `x` or right of it. @param {Placed[]} row @param {number} x */
function firstAtLeast(row, x) {
  let [low, high] = [0, row.length];
  while (low < high) {
    const half = (low + high) >> 1;
    if (row[half].x < x) low = half + 1;
    else high = half;
  }
  return low;
}
