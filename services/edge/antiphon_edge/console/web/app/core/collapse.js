/**
 * Makes the tree to draw: long runs of single children are folded into one spot.
 * @import { Spot } from "../../types"
 * @import { Tree } from "./tree.js"
 */

export const RUN_MIN = 6;

/**
 * @param {Tree} tree
 * @param {{ expanded?: ReadonlySet<string>, kept?: ReadonlySet<string>, runMin?: number }} [options] `expanded` has
 *   the nodes of unfolded runs, `kept` the nodes that are never folded.
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

/** The run of single children that begins with a node, at least the node itself. The first node after a branch and the last
 * one before a branch or the end belong to no run.
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
