/** Shows an error: the message of the API, its code, parameter and request id, and advice. */
import { adviceFor, ApiError } from "../core/errors.js";
import { STRINGS } from "../strings.js";
import { html } from "./html.js";

/** @param {{ error: unknown, children?: any }} props */
export function ErrorNote({ error, children }) {
  const apiError = error instanceof ApiError ? error : null;
  const message = error instanceof Error ? error.message : String(error);
  const facts = [
    [STRINGS.error.code, apiError?.code ?? (apiError ? String(apiError.status) : null)],
    [STRINGS.error.param, apiError?.param],
    [STRINGS.error.request, apiError?.requestId],
  ].filter(([, value]) => value);
  return html`<div class="note error" role="alert">
    <p class="said">${message}</p>
    <p class="advice">${adviceFor(error)}</p>
    ${facts.length > 0 && html`<dl>${facts.map(([name, value]) => html`<div><dt>${name}</dt><dd><code>${value}</code></dd></div>`)}</dl>`}
    ${children}
  </div>`;
}
