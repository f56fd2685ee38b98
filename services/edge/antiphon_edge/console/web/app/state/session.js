/** Authentication and the list of models. The API key is kept in this tab only.
 * @import { Fields } from "../../types" */
import { computed, signal } from "@preact/signals";
import { ApiError } from "../core/errors.js";
import { Api } from "./api.js";

const KEY = "antiphon.key";

const key = signal(sessionStorage.getItem(KEY) ?? "");
/** The state of signing in: whether a request runs, its error, and its result, the models. */
export const isAsking = signal(true);
export const problem = signal(/** @type {unknown} */ (null));
export const models = signal(/** @type {Fields[] | null} */ (null));
export const needsKey = signal(false);
export const hasKey = computed(() => key.value !== "");
/** How often the browser came back online. */
export const reconnections = signal(0);
addEventListener("online", () => (reconnections.value += 1));

export const api = new Api(new URL("v1/", document.baseURI).href, () => key.peek());

/** Requests the models with this API key. The key is kept if the server accepts it, and dropped if the server rejects it; a
 * server that is away does neither. @param {string} [typed] */
export async function signIn(typed = key.peek()) {
  isAsking.value = true;
  key.value = typed;
  try {
    models.value = await api.models();
    problem.value = null;
    needsKey.value = false;
    if (typed) sessionStorage.setItem(KEY, typed);
  } catch (error) {
    needsKey.value = error instanceof ApiError && error.status === 401;
    problem.value = needsKey.value && !typed ? null : error;
    if (needsKey.value) dropKey();
  } finally {
    isAsking.value = false;
  }
}

function dropKey() {
  key.value = "";
  sessionStorage.removeItem(KEY);
}

/** Clears the storage of this tab. */
export function signOut() {
  sessionStorage.clear();
  location.hash = "";
  location.reload();
}
