/** A button that copies a text, and confirms it for a moment. */
import { useState } from "preact/hooks";
import { STRINGS } from "../strings.js";
import { html } from "./html.js";

/** @param {{ text: string, label?: string }} props */
export function CopyButton({ text, label = STRINGS.copy.copy }) {
  const [isCopied, setCopied] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setCopied(true);
    setTimeout(() => setCopied(false), 1500);
  };
  return html`<button type="button" class="small quiet copy" onClick=${copy}>${isCopied ? STRINGS.copy.copied : label}</button>`;
}
