/**
 * Routes in the URL fragment: the view and its response ids. Browsers do not send the fragment to servers.
 *
 * @typedef {{ view: "chat" | "tree" | "response" | "live" | "approvals", id: string | null } | { view: "compare", id: string, other: string }} Route
 */

const ID = /^resp_[A-Za-z0-9_-]{1,200}$/;
const VIEWS = new Set(["chat", "tree", "response", "live", "approvals"]);

/** @param {string} fragment @returns {Route} */
export function parseRoute(fragment) {
  const [view, id, other] = fragment.replace(/^#?\/?/, "").split("/");
  const known = ID.test(id ?? "") ? id : null;
  if (view === "compare" && known && ID.test(other ?? "")) return { view, id: known, other };
  if (VIEWS.has(view)) return { view: /** @type {"chat" | "tree" | "response" | "live" | "approvals"} */ (view), id: known };
  return { view: "chat", id: null };
}

/** @param {Route} route */
export function formatRoute(route) {
  return "#/" + [route.view, route.id, "other" in route ? route.other : null].filter(Boolean).join("/");
}

/** The response id in a text that the user pasted: an id or a URL. @param {string} text */
export function idIn(text) {
  return /resp_[A-Za-z0-9_-]+/.exec(text)?.[0] ?? null;
}
