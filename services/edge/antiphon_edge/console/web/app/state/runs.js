/**
 * Background responses that this tab watches, until they end.
 */
import { signal } from "@preact/signals";
import { isRetryable } from "../core/errors.js";
import { UNFINISHED } from "../core/fold.js";
import { follow } from "../core/follow.js";
import * as forest from "./forest.js";
import * as library from "./library.js";
import { api } from "./session.js";

const KEY = "antiphon.runs";
const MOST = 50;

/** The ids of the watched responses, the newest first. */
export const runs = signal(/** @type {string[]} */ (JSON.parse(sessionStorage.getItem(KEY) ?? "[]")));
/** The responses that are followed now, and whether the connection is lost. */
export const followed = signal(/** @type {ReadonlyMap<string, boolean>} */ (new Map()));

/** @param {string} id */
export function watch(id) {
  if (runs.peek().includes(id)) return;
  runs.value = [id, ...runs.peek()].slice(0, MOST);
  sessionStorage.setItem(KEY, JSON.stringify(runs.peek()));
}

/** Removes a response that was deleted from the list. @param {string} id */
export function unwatch(id) {
  runs.value = runs.peek().filter((each) => each !== id);
  sessionStorage.setItem(KEY, JSON.stringify(runs.peek()));
}

/** Follows a response to its end, and resumes after lost connections. @param {string} id */
export async function followRun(id) {
  watch(id);
  if (followed.peek().has(id)) return;
  mark(id, false);
  library.note(id, { error: null });
  const last = library.peek(id).arrivals.at(-1)?.event.sequence_number ?? -1;
  const source = {
    open: (/** @type {number} */ after) => api.events(id, after),
    hasEnded: async () => !UNFINISHED.has((await api.response(id)).status),
    wait: (/** @type {number} */ milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds)).then(() => undefined),
    isRetryable,
    onConnection: (/** @type {boolean} */ lost) => mark(id, lost),
  };
  try {
    for await (const event of follow(source, last)) {
      library.take(id, event);
      if (event.response) noteStatus(id);
    }
    await settleRun(id);
  } catch (error) {
    library.note(id, { error });
  } finally {
    mark(id, null);
  }
}

/** Follows a response if it runs in the background. The server has no events of others before they end. @param {string} id */
export async function followIfRunning(id) {
  await library.load(id);
  noteStatus(id);
  const { response } = library.peek(id);
  if (response?.background && UNFINISHED.has(response.status)) await followRun(id);
}

/** Cancels a response. If it is followed, its last events may come after the answer, and its final state is read after them.
 * @param {string} id */
export async function cancelRun(id) {
  library.note(id, { error: null });
  try {
    const response = await api.cancel(id);
    if (!followed.peek().has(id)) library.note(id, { response });
  } catch (error) {
    library.note(id, { error });
  }
  noteStatus(id);
}

/** Loads the final status: the stream of a cancelled response has no event for it. @param {string} id */
async function settleRun(id) {
  if (UNFINISHED.has(library.peek(id).response?.status ?? "queued")) await library.load(id, { fresh: true });
  noteStatus(id);
}

/** @param {string} id */
function noteStatus(id) {
  const node = forest.tree.peek().nodes.get(id);
  const status = library.peek(id).response?.status;
  if (node?.status && status && status !== node.status) forest.grow(id, node.parent_id, status, node.created_at);
}

/** @param {string} id @param {boolean | null} lost */
function mark(id, lost) {
  const next = new Map(followed.peek());
  if (lost === null) next.delete(id);
  else next.set(id, lost);
  followed.value = next;
}
