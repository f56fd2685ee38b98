/** A button that opens a menu. */
import { html } from "./html.js";

/** @param {{ label: string, icon?: any, items: [string, () => void][] }} props */
export function Menu({ label, icon, items }) {
  const choose = (/** @type {Event} */ event, /** @type {() => void} */ act) => {
    /** @type {HTMLElement} */ (event.currentTarget).closest("details")?.removeAttribute("open");
    act();
  };
  return html`<details class="menu">
    <summary class="button quiet">${icon}${label}</summary>
    <div class="sheet">${items.map(([name, act]) => html`<button type="button" onClick=${(/** @type {Event} */ event) => choose(event, act)}>${name}</button>`)}</div>
  </details>`;
}
