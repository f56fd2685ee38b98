/** Shows a value as indented JSON. */
import { CopyButton } from "./copy-button.js";
import { html } from "./html.js";

/** @param {{ value: unknown, label: string }} props */
export function JsonView({ value, label }) {
  const text = JSON.stringify(value, null, 2) ?? "";
  return html`<div class="code"><${CopyButton} text=${text} /><pre tabindex="0" role="region" aria-label=${label}><code>${text}</code></pre></div>`;
}
