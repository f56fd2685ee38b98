/**
 * The client of the public HTTP API, with the user's API key. The console uses no other interface of the server.
 * @import { ApiEvent, ApprovalPage, CacheFacts, Fields, Item, NodePage, Response as Made } from "../../types"
 */
import { errorOf } from "../core/errors.js";
import { eventsOf } from "../core/sse.js";

const TREE_PAGE = 1000;

/**
 * @typedef {object} Ask
 * @property {string} [method]
 * @property {Fields} [body]
 * @property {AbortSignal} [signal]
 * @property {Record<string, string>} [headers]
 */

/** A client for one server. */
export class Api {
  /**
   * @param {string} base The URL of the API, ending in /v1/.
   * @param {() => string} key
   */
  constructor(base, key) {
    this.base = base;
    this.key = key;
  }

  /** @param {string} path @param {Ask} [ask] */
  async ask(path, { method = "GET", body, signal, headers = {} } = {}) {
    const key = this.key();
    const answer = await fetch(new URL(path, this.base), {
      method,
      signal,
      cache: "no-store",
      credentials: "omit",
      headers: {
        ...headers,
        ...(key ? { Authorization: `Bearer ${key}` } : {}),
        ...(body ? { "Content-Type": "application/json" } : {}),
      },
      body: body ? JSON.stringify(body) : undefined,
    });
    if (!answer.ok) throw await errorOf(answer);
    return answer;
  }

  /** @param {string} path @param {Ask} [ask] */
  async json(path, ask) {
    return (await this.ask(path, ask)).json();
  }

  /** @returns {Promise<Fields[]>} */
  async models() {
    return (await this.json("models")).data;
  }

  /** @param {string} id @returns {Promise<Made>} */
  response(id) {
    return this.json(`responses/${encodeURIComponent(id)}`);
  }

  /** All input items of a response, in their order. @param {string} id @returns {Promise<Item[]>} */
  async inputItems(id) {
    const items = /** @type {Item[]} */ ([]);
    for (let after = ""; ; ) {
      const page = await this.json(`responses/${encodeURIComponent(id)}/input_items?limit=100&order=asc${after}`);
      items.push(...page.data);
      if (!page.has_more) return items;
      after = `&after=${encodeURIComponent(page.last_id)}`;
    }
  }

  /** A page of the whole tree that a response is part of. @param {string} id @param {string | null} cursor @returns {Promise<NodePage>} */
  tree(id, cursor) {
    const more = cursor === null ? "" : `&cursor=${encodeURIComponent(cursor)}`;
    return this.json(`responses/${encodeURIComponent(id)}/tree?from_root=true&limit=${TREE_PAGE}${more}`);
  }

  /** What of the prompt of a response was cached, and with `compare` why the rest was not.
   * @param {string} id @param {string} [compare] @returns {Promise<CacheFacts>} */
  cache(id, compare) {
    return this.json(`responses/${encodeURIComponent(id)}/cache${compare ? `?compare=${encodeURIComponent(compare)}` : ""}`);
  }

  /** A page of the calls that wait for an approval. @param {string | null} cursor @returns {Promise<ApprovalPage>} */
  approvals(cursor) {
    return this.json(`approvals${cursor === null ? "" : `?cursor=${encodeURIComponent(cursor)}`}`);
  }

  /** Creates a response, and waits for its end. @param {Fields} body @returns {Promise<Made>} */
  create(body) {
    return this.json("responses", { method: "POST", body });
  }

  /** @param {string} id @returns {Promise<Made>} */
  cancel(id) {
    return this.json(`responses/${encodeURIComponent(id)}/cancel`, { method: "POST" });
  }

  /** @param {string} id */
  remove(id) {
    return this.json(`responses/${encodeURIComponent(id)}`, { method: "DELETE" });
  }

  /** The events of a stored response after a sequence number; -1 for all.
   * @param {string} id @param {number} after @param {AbortSignal} [signal] @returns {AsyncGenerator<ApiEvent>} */
  async *events(id, after, signal) {
    const query = after < 0 ? "" : `&starting_after=${after}`;
    const answer = await this.ask(`responses/${encodeURIComponent(id)}?stream=true${query}`, { signal });
    if (answer.body) yield* eventsOf(answer.body);
  }
}
