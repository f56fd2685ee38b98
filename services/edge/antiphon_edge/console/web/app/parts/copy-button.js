/** A button that copies a text, and confirms it for a moment. */
import { useState } from "preact/hooks";
import { STRINGS } from "../strings.js";
import { html } from "./html.js";

/** @param {{ text: string, label?: string }} props */
export function CopyButton({ text, label = STRINGS.copy.copy }) {
  const [isCopied, setCopied] = useState(false);
  const copy = async (/** @type {MouseEvent} */ event) => {
    await copyText(text, /** @type {Element} */ (event.currentTarget));
    setCopied(true);
    setTimeout(() => setCopied(false), 1500);
  };
  return html`<button type="button" class="small quiet copy" onClick=${copy}>${isCopied ? STRINGS.copy.copied : label}</button>`;
}

/** Copies a text. Browsers offer the clipboard only on https and localhost; elsewhere a field is selected and copied from. It
 * stands beside the button, because nothing outside of an open dialog can be selected.
 * @param {string} text @param {Element} button */
async function copyText(text, button) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const field = document.createElement("textarea");
  field.value = text;
  button.after(field);
  field.select();
  document.execCommand("copy");
  field.remove();
}
