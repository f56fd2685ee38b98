/** The server's facts about what of each prompt was cached. @import { CacheFacts } from "../../types" */
import { signal } from "@preact/signals";
import { api } from "./session.js";

/** @type {Map<string, import("@preact/signals").Signal<CacheFacts | null>>} */
const known = new Map();
/** @type {Set<string>} */
const asked = new Set();

/** @param {string} id */
function cell(id) {
  let found = known.get(id);
  if (!found) known.set(id, (found = signal(/** @type {CacheFacts | null} */ (null))));
  return found;
}

/** The facts about a response; null before they are loaded. @param {string} id */
export const read = (id) => cell(id).value;

/** Loads the facts about a response, once. A failure leaves the view without them. @param {string} id */
export async function load(id) {
  if (asked.has(id)) return;
  asked.add(id);
  try {
    cell(id).value = await api.cache(id);
  } catch {
    asked.delete(id);
  }
}

/** Compares a response with the one that it continues. @param {string} id */
export const explain = (id) => api.cache(id, "parent");
