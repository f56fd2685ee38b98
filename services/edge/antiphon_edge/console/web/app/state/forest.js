/**
 * The tree that is open, and how much of it is loaded.
 */
import { signal } from "@preact/signals";
import { PagedNodes } from "../core/pages.js";
import { Tree } from "../core/tree.js";
import { api } from "./session.js";

/** The tree. Its `changes` says when to look again. */
export const tree = signal(new Tree());
export const changes = signal(0);
export const isWhole = signal(true);
export const problem = signal(/** @type {unknown} */ (null));
/** Runs that are drawn in full. */
export const expanded = signal(/** @type {ReadonlySet<string>} */ (new Set()));
/** @type {PagedNodes | null} */
let pages = null;

/** Makes sure that the tree of a response is open, loaded up to that response. @param {string} id */
export async function openTreeOf(id) {
  if (tree.peek().nodes.has(id)) return;
  problem.value = null;
  const mine = new Tree();
  const list = new PagedNodes((cursor) => api.tree(id, cursor));
  try {
    await list.until(id, (nodes) => mine.add(nodes));
  } catch (error) {
    problem.value = error;
    return;
  }
  pages = list;
  tree.value = mine;
  expanded.value = new Set();
  changed();
}

/** Loads the next page. */
export async function loadMore() {
  if (!pages || pages.isDone) return;
  const mine = tree.peek();
  try {
    const nodes = await pages.next();
    if (mine === tree.peek()) mine.add(nodes);
  } catch (error) {
    problem.value = error;
  }
  changed();
}

/** Notes a response that was just made. A root begins another tree.
 * @param {string} id @param {string | null} parentId @param {string} status @param {number} createdAt */
export function grow(id, parentId, status, createdAt) {
  if (parentId === null && !tree.peek().nodes.has(id)) {
    pages = null;
    tree.value = new Tree();
    expanded.value = new Set();
  }
  tree.peek().grow(id, parentId, status, createdAt);
  changed();
}

/** Closes the tree: the next message begins another one. */
export function close() {
  pages = null;
  tree.value = new Tree();
  changed();
}

/** @param {readonly string[]} ids */
export function toggleRun(ids) {
  const next = new Set(expanded.peek());
  for (const id of ids) {
    if (next.has(id)) next.delete(id);
    else next.add(id);
  }
  expanded.value = next;
}

function changed() {
  isWhole.value = pages?.isDone ?? true;
  changes.value += 1;
}
