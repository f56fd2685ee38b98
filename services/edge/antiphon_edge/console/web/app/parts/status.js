/** Shows a status as a shape, a colour and, with `word`, a word. */
import { shapeOf } from "../core/shapes.js";
import { STRINGS } from "../strings.js";
import { html } from "./html.js";

/** @param {string | null} status */
function statusWord(status) {
  const words = /** @type {Record<string, string>} */ (STRINGS.status);
  return words[status ?? "deleted"] ?? String(status);
}

/** @param {{ status: string | null, word?: boolean }} props */
export function Status({ status, word = false }) {
  const name = status ?? "deleted";
  const label = statusWord(status);
  return html`<span class="status" data-status=${name} title=${word ? undefined : label}>
    <svg viewBox="-6 -6 12 12" aria-hidden="true"><path d=${shapeOf(status)(0, 0, 4)} /></svg>
    <span class=${word ? "" : "unseen"}>${label}</span>
  </span>`;
}
