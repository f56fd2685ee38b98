/** An error: the API's own sentence, its code, the id of its request, and what to do. */
import { adviceFor, ApiError } from "../core/errors.js";
import { STRINGS } from "../strings.js";
import { html } from "./html.js";

/** @param {{ error: unknown, children?: any }} props */
export function ErrorNote({ error, children }) {
  const told = error instanceof ApiError ? error : null;
  const message = error instanceof Error ? error.message : String(error);
  const facts = [
    [STRINGS.error.code, told?.code ?? (told ? String(told.status) : null)],
    [STRINGS.error.param, told?.param],
    [STRINGS.error.request, told?.requestId],
  ].filter(([, value]) => value);
  return html`<div class="note error" role="alert">
    <p class="said">${message}</p>
    <p class="advice">${adviceFor(error)}</p>
    ${facts.length > 0 && html`<dl>${facts.map(([name, value]) => html`<div><dt>${name}</dt><dd><code>${value}</code></dd></div>`)}</dl>`}
    ${children}
  </div>`;
}
