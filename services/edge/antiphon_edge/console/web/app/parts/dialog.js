/** A modal dialog: the browser's own element, which traps the focus and closes on Escape. */
import { useEffect, useRef } from "preact/hooks";
import { STRINGS } from "../strings.js";
import { html } from "./html.js";
import { Icon } from "./icons.js";

/** @param {{ title: string, onClose: () => void, children?: any }} props */
export function Dialog({ title, onClose, children }) {
  const element = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useEffect(() => element.current?.showModal(), []);
  return html`<dialog ref=${element} aria-label=${title} onClose=${onClose}>
    <header><h2>${title}</h2>
      <button type="button" class="quiet square" aria-label=${STRINGS.close} onClick=${() => element.current?.close()}><${Icon} name="close" /></button>
    </header>
    ${children}
  </dialog>`;
}
