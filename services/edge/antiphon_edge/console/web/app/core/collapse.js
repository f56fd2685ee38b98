/**
 * The drawn tree: nodes, with long runs of single children drawn as one.
 * @import { Spot } from "../../types"
 * @import { Tree } from "./tree.js"
 */

export const RUN_MIN = 6;

/**
 * @param {Tree} tree
 * @param {{ expanded?: ReadonlySet<string>, kept?: ReadonlySet<string>, runMin?: number }} [options] `expanded` has
 *   nodes of runs that are drawn in full, `kept` those that always are, with what is beside them.
 * @returns {Spot | null} the root
 */
export function collapse(tree, { expanded = new Set(), kept = new Set(), runMin = RUN_MIN } = {}) {
  const first = tree.root;
  if (!first) return null;
  const root = spotOf(tree, [first.id], null);
  const open = [root];
  for (let spot = open.pop(); spot; spot = open.pop()) {
    const last = /** @type {string} */ (spot.ids.at(-1));
    for (const id of tree.childrenOf(last)) {
      const run = expanded.has(id) ? [id] : runFrom(tree, id, kept);
      const isDrawn = run.length < runMin;
      const child = spotOf(tree, isDrawn ? [id] : run, spot);
      spot.children.push(child);
      open.push(child);
    }
  }
  return root;
}

/** The ids of single children in a row that may be drawn as one, from this one on; at least itself. The first node behind a
 * branch is drawn, and so is the last one, before the next branch or at the end.
 * @param {Tree} tree
 * @param {string} id
 * @param {ReadonlySet<string>} kept */
function runFrom(tree, id, kept) {
  const parent = tree.nodes.get(id)?.parent_id ?? "";
  if (tree.childrenOf(parent).length > 1) return [id];
  const run = [];
  for (let next = id, child = onlyChild(tree, id); child && !kept.has(next); next = child, child = onlyChild(tree, child)) {
    run.push(next);
  }
  return run.length > 0 ? run : [id];
}

/** @param {Tree} tree
 * @param {string} id */
function onlyChild(tree, id) {
  const children = tree.childrenOf(id);
  return children.length === 1 && tree.missingBelow(id) === 0 ? children[0] : undefined;
}

/**
 * @param {Tree} tree
 * @param {string[]} ids
 * @param {Spot | null} parent
 * @returns {Spot}
 */
function spotOf(tree, ids, parent) {
  const last = /** @type {string} */ (ids.at(-1));
  const level = parent ? parent.level + 1 : 0;
  return { id: ids[0], ids, parent, children: [], level, missing: tree.missingBelow(last) };
}

/** All spots, parents first. @param {Spot | null} root */
export function* spots(root) {
  const open = root ? [root] : [];
  for (let spot = open.pop(); spot; spot = open.pop()) {
    yield spot;
    for (let index = spot.children.length - 1; index >= 0; index -= 1) open.push(spot.children[index]);
  }
}
