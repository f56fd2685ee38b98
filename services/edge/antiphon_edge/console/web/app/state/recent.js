/** The conversations that this tab has shown. Only ids are kept, until the tab is closed. */
import { signal } from "@preact/signals";

const KEY = "antiphon.recent";
const MOST = 12;

/** @typedef {{ root: string, head: string }} Recent */
export const recent = signal(/** @type {Recent[]} */ (stored()));

/** @param {string} root @param {string} head */
export function remember(root, head) {
  const others = recent.peek().filter((each) => each.root !== root);
  recent.value = [{ root, head }, ...others].slice(0, MOST);
  sessionStorage.setItem(KEY, JSON.stringify(recent.peek()));
}

/** @param {string} root */
export function forget(root) {
  recent.value = recent.peek().filter((each) => each.root !== root);
  sessionStorage.setItem(KEY, JSON.stringify(recent.peek()));
}

function stored() {
  try {
    return JSON.parse(sessionStorage.getItem(KEY) ?? "[]");
  } catch {
    return [];
  }
}
