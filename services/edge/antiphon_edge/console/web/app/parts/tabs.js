/** Tabs with arrow key navigation. */
import { html } from "./html.js";

/** @param {{ label: string, tabs: [string, string][], chosen: string, onChoose: (name: string) => void, children?: any }} props */
export function Tabs({ label, tabs, chosen, onChoose, children }) {
  const press = (/** @type {KeyboardEvent} */ event) => {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (step === 0) return;
    const at = tabs.findIndex(([name]) => name === chosen);
    const [next] = tabs[(at + step + tabs.length) % tabs.length];
    onChoose(next);
    document.getElementById(`tab-${next}`)?.focus();
  };
  return html`<div class="tabs" role="tablist" aria-label=${label} onKeyDown=${press}>
      ${tabs.map(([name, text]) => html`<button type="button" role="tab" id=${`tab-${name}`} aria-controls="tab-panel" aria-selected=${name === chosen} tabindex=${name === chosen ? 0 : -1} onClick=${() => onChoose(name)}>${text}</button>`)}
    </div>
    <div id="tab-panel" role="tabpanel" aria-labelledby=${`tab-${chosen}`}>${children}</div>`;
}
