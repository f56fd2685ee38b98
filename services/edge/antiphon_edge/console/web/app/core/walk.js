/**
 * Keyboard navigation in the tree.
 * @import { Spot } from "../../types"
 */

/**
 * The spot to which a key moves: the parent, the first child, or the neighbours on the level as drawn.
 * @param {Spot} spot
 * @param {string} key
 * @param {(spot: Spot, step: -1 | 1) => Spot | undefined} neighbour The next spot of the same level.
 * @returns {Spot | undefined}
 */
export function step(spot, key, neighbour) {
  switch (key) {
    case "ArrowUp":
      return spot.parent ?? undefined;
    case "ArrowDown":
      return spot.children[0];
    case "ArrowLeft":
      return neighbour(spot, -1);
    case "ArrowRight":
      return neighbour(spot, 1);
    case "Home":
      return topOf(spot);
    case "End":
      return bottomOf(spot);
    default:
      return undefined;
  }
}

/** @param {Spot} spot */
function topOf(spot) {
  while (spot.parent) spot = spot.parent;
  return spot;
}

/** @param {Spot} spot */
function bottomOf(spot) {
  for (let next = spot.children.at(-1); next; next = spot.children.at(-1)) spot = next;
  return spot;
}
