/**
 * The open tree, and the state of loading it.
 * @import { Node } from "../../types"
 */
import { signal } from "@preact/signals";
import { UNFINISHED } from "../core/fold.js";
import { PagedNodes } from "../core/pages.js";
import { Tree } from "../core/tree.js";
import { api } from "./session.js";

/** The tree. It changes in place: views read `changes` to be drawn again. */
export const tree = signal(new Tree());
export const changes = signal(0);
export const isWhole = signal(true);
export const problem = signal(/** @type {unknown} */ (null));
/** The nodes of unfolded runs. */
export const expanded = signal(/** @type {ReadonlySet<string>} */ (new Set()));
/** @type {PagedNodes | null} */
let pages = null;
/** The tree that is being opened. Another one that is opened meanwhile takes its place. @type {PagedNodes | null} */
let opening = null;

/** Opens the tree of a response, and loads pages until it contains the response. @param {string} id */
export async function openTreeOf(id) {
  problem.value = null;
  opening = null;
  if (tree.peek().nodes.has(id)) return;
  const mine = new Tree();
  const list = new PagedNodes((cursor) => api.tree(id, cursor));
  opening = list;
  try {
    await list.until(id, (nodes) => mine.add(nodes));
  } catch (error) {
    if (opening === list) problem.value = error;
    return;
  }
  if (opening !== list) return;
  pages = list;
  tree.value = mine;
  expanded.value = new Set();
  changed();
}

/** Loads the next page. */
export async function loadMore() {
  if (!pages || pages.isDone) return;
  const mine = tree.peek();
  problem.value = null;
  try {
    const nodes = await pages.next();
    if (mine === tree.peek()) mine.add(nodes);
  } catch (error) {
    if (mine === tree.peek()) problem.value = error;
  }
  changed();
}

/** Loads the first page of the open tree again, with the turns and deletions of other clients. A failure changes nothing. */
export async function refresh() {
  const mine = tree.peek();
  const page = await firstPage(mine);
  if (!page || mine !== tree.peek()) return;
  mine.add(page.data.filter(isNews));
  changed();
}

/** The first page of a tree. The server finds no deleted response, so the last one is asked for if the first one is gone.
 * @param {Tree} from */
async function firstPage({ nodes }) {
  const readable = [...nodes.values()].filter(({ status }) => status !== null);
  for (const node of [readable[0], readable.at(-1)]) {
    const page = node && (await api.tree(node.id, null).catch(() => null));
    if (page) return page;
  }
  return null;
}

/** Whether a page knows more of a node than this tab. The tab may have seen its end or its deletion after the page was made.
 * @param {Node} node */
function isNews({ id, status }) {
  const known = tree.peek().nodes.get(id);
  return !known || (known.status !== null && !UNFINISHED.has(status ?? ""));
}

/** Adds or updates a response that was just made. A root begins another tree.
 * @param {string} id @param {string | null} parentId @param {string} status @param {number} createdAt */
export function grow(id, parentId, status, createdAt) {
  if (parentId === null && !tree.peek().nodes.has(id)) close();
  tree.peek().grow(id, parentId, status, createdAt);
  changed();
}

/** Shows a response of the open tree as deleted. @param {string} id */
export function markDeleted(id) {
  const node = tree.peek().nodes.get(id);
  if (node) tree.peek().add([{ ...node, status: null }]);
  changed();
}

/** Closes the tree. The next message begins another one. */
export function close() {
  pages = opening = problem.value = null;
  tree.value = new Tree();
  expanded.value = new Set();
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
