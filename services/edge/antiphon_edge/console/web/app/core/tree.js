/**
 * The loaded part of one tree of responses. Pages may come in any order, and may repeat nodes.
 * @import { Node } from "../../types"
 */

/** Nodes by id, and the children of each node in the order in which they were added. */
export class Tree {
  /** @type {Map<string, Node>} */
  nodes = new Map();
  /** @type {Map<string, string[]>} */
  #children = new Map();

  /** @returns {Node | undefined} the node whose parent is not loaded */
  get root() {
    for (const node of this.nodes.values()) {
      if (node.parent_id === null || !this.nodes.has(node.parent_id)) return node;
    }
    return undefined;
  }

  /** @param {Iterable<Node>} nodes */
  add(nodes) {
    for (const node of nodes) {
      if (!this.nodes.has(node.id) && node.parent_id !== null) this.#childrenOf(node.parent_id).push(node.id);
      this.nodes.set(node.id, node);
    }
  }

  /**
   * Adds or updates a response that was just made, before a page contains it.
   * @param {string} id
   * @param {string | null} parentId
   * @param {string} status
   * @param {number} createdAt
   */
  grow(id, parentId, status, createdAt) {
    const parent = parentId === null ? undefined : this.nodes.get(parentId);
    const known = this.nodes.get(id);
    if (!known && parent) this.nodes.set(parent.id, { ...parent, child_count: parent.child_count + 1 });
    const depth = parent ? parent.depth + 1 : 0;
    const node = { id, parent_id: parentId, status, depth, child_count: known?.child_count ?? 0, created_at: createdAt };
    this.add([node]);
  }

  /** @param {string} id */
  childrenOf(id) {
    return this.#children.get(id) ?? [];
  }

  /** The number of children of a node that are not loaded.
   * @param {string} id */
  missingBelow(id) {
    const node = this.nodes.get(id);
    return node ? Math.max(0, node.child_count - this.childrenOf(id).length) : 0;
  }

  /** The ids from the root to a node.
   * @param {string | null} id */
  pathTo(id) {
    const path = [];
    for (let node = this.nodes.get(id ?? ""); node; node = this.nodes.get(node.parent_id ?? "")) path.push(node.id);
    return path.reverse();
  }

  /** A node with its siblings, oldest first.
   * @param {string} id */
  siblingsOf(id) {
    const parent = this.nodes.get(id)?.parent_id;
    return parent && this.nodes.has(parent) ? this.childrenOf(parent) : [id];
  }

  /** The leaf that is reached from a node by always taking the newest child.
   * @param {string} id */
  newestLeaf(id) {
    for (let next = this.childrenOf(id).at(-1); next !== undefined; next = this.childrenOf(id).at(-1)) id = next;
    return id;
  }

  /** @param {string} parentId */
  #childrenOf(parentId) {
    let list = this.#children.get(parentId);
    if (!list) this.#children.set(parentId, (list = []));
    return list;
  }
}
