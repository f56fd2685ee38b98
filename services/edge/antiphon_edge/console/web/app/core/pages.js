/**
 * Loads a paginated list, page by page.
 * @import { NodePage, Node } from "../../types"
 */

/** A list whose pages are loaded on demand. */
export class PagedNodes {
  /** @type {string | null} */
  #cursor = null;
  #isDone = false;
  /** @type {Promise<Node[]> | null} */
  #pending = null;
  #ask;

  /** @param {(cursor: string | null) => Promise<NodePage>} ask */
  constructor(ask) {
    this.#ask = ask;
  }

  get isDone() {
    return this.#isDone;
  }

  /** The nodes of the next page; none after the last page. Concurrent calls share one request. */
  next() {
    if (this.#isDone) return Promise.resolve([]);
    this.#pending ??= this.#load().finally(() => (this.#pending = null));
    return this.#pending;
  }

  /** Loads pages until one has the node, or all are loaded.
   * @param {string} id
   * @param {(nodes: Node[]) => void} onPage */
  async until(id, onPage) {
    while (!this.#isDone) {
      const nodes = await this.next();
      onPage(nodes);
      if (nodes.some((node) => node.id === id)) return true;
    }
    return false;
  }

  async #load() {
    const page = await this.#ask(this.#cursor);
    this.#cursor = page.next_cursor;
    this.#isDone = page.next_cursor === null;
    return page.data;
  }
}
