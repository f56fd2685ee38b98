/** Trees for tests. */
import { Tree } from "../../../services/edge/antiphon_edge/console/web/app/core/tree.js";

/** A seeded generator of numbers below a limit. */
export function numbers(seed) {
  return (below) => {
    seed = (seed * 1103515245 + 12345) % 2147483648;
    return Math.floor((seed / 2147483648) * below);
  };
}

export const chain = (length) => treeOf(Array.from({ length }, (_, index) => (index === 0 ? null : index - 1)));
/** A tree made from the indexes of the parents: [null, 0, 0] is a root with two children. */
export function treeOf(parents) {
  const counts = new Map();
  for (const parent of parents) counts.set(parent, (counts.get(parent) ?? 0) + 1);
  const tree = new Tree();
  const depths = [];
  tree.add(parents.map((parent, index) => {
    depths[index] = parent === null ? 0 : depths[parent] + 1;
    return { id: `n${index}`, parent_id: parent === null ? null : `n${parent}`, status: "completed", depth: depths[index], child_count: counts.get(index) ?? 0, created_at: index };
  }));
  return tree;
}
