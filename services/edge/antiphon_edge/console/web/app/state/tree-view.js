/** State that the views of the tree share: the drawn tree, and the selected node. */
import { computed, signal } from "@preact/signals";
import { collapse } from "../core/collapse.js";
import { Layout } from "../core/layout.js";
import * as forest from "./forest.js";
import { settle } from "./router.js";

export const selected = signal(/** @type {string | null} */ (null));
/** Nodes that the user has jumped to: they are drawn even within a run. */
export const kept = signal(/** @type {ReadonlySet<string>} */ (new Set()));
export const layout = computed(() => {
  void forest.changes.value;
  return new Layout(collapse(forest.tree.value, { expanded: forest.expanded.value, kept: kept.value }));
});

/** @param {string} id */
export function select(id) {
  selected.value = id;
  settle({ view: "tree", id });
}
