/** The route in the URL of the page, as a signal. @import { Route } from "../core/route.js" */
import { signal } from "@preact/signals";
import { formatRoute, parseRoute } from "../core/route.js";

export const route = signal(parseRoute(location.hash));

addEventListener("hashchange", () => (route.value = parseRoute(location.hash)));

/** @param {Route} to */
export function go(to) {
  location.hash = formatRoute(to);
}

/** Changes the route without adding to the history. @param {Route} to */
export function settle(to) {
  history.replaceState(null, "", formatRoute(to));
  route.value = to;
}
