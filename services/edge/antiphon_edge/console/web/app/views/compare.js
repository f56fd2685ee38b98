/** Two responses side by side, with the differences of their texts and requests.
 * @import { Response } from "../../types"
 * @import { Asked } from "../core/differences.js" */
import { useMemo } from "preact/hooks";
import { differences } from "../core/differences.js";
import { diff } from "../core/diff.js";
import { answerOf, shortId } from "../core/texts.js";
import { ErrorNote } from "../parts/error-note.js";
import { html } from "../parts/html.js";
import { useLoading } from "../parts/loading.js";
import { Status } from "../parts/status.js";
import * as library from "../state/library.js";
import { STRINGS } from "../strings.js";

const S = STRINGS.compare;

/** @param {{ left: string, right: string }} props */
export function Compare({ left, right }) {
  const [one, other] = [library.read(left), library.read(right)];
  useLoading(() => {
    void library.load(left);
    void library.load(right);
  }, [left, right]);
  const error = one.error ?? other.error;
  return html`<div class="page">
    <header class="bar"><h1>${S.title}</h1><div class="actions"><a class="button quiet" href=${`#/compare/${right}/${left}`}>${S.swap}</a></div></header>
    ${error !== null && html`<${ErrorNote} error=${error} />`}
    ${one.response && other.response && html`<${Sides} left=${{ ...one.response, input: one.input }} right=${{ ...other.response, input: other.input }} />`}
    ${!(one.response && other.response) && error === null && html`<p class="waiting" role="status">${STRINGS.loading}</p>`}
  </div>`;
}

/** @param {{ left: Asked, right: Asked }} props */
function Sides({ left, right }) {
  const [one, two] = [answerOf(left), answerOf(right)];
  const pieces = useMemo(() => diff(one, two), [one, two]);
  const isSame = pieces.every((piece) => piece.kind === "same");
  const side = (/** @type {Response} */ response, /** @type {string} */ label, /** @type {string} */ hidden) => html`<section class="side-text" aria-label=${label}>
    <header><${Status} status=${response.status} word=${true} /><a href=${`#/response/${response.id}`}><code>${shortId(response.id)}</code></a></header>
    <div class="plain">${pieces.filter(({ kind }) => kind !== hidden).map(({ kind, text }) => (kind === "same" ? text : html`<mark class=${kind}>${text}</mark>`))}</div>
  </section>`;
  return html`${isSame && html`<p class="note">${S.same}</p>`}
    <div class="sides">${side(left, S.left, "added")}${side(right, S.right, "removed")}</div>
    <h2>${S.settings}</h2>
    <${Differences} left=${left} right=${right} />`;
}

/** @param {{ left: Asked, right: Asked }} props */
function Differences({ left, right }) {
  const rows = differences(left, right);
  if (rows.length === 0) return html`<p>${S.none}</p>`;
  return html`<table class="facts wide-cells"><thead><tr><th>${S.member}</th><th>${S.left}</th><th>${S.right}</th></tr></thead>
    <tbody>${rows.map(({ name, left: one, right: other }) => html`<tr><th scope="row"><code>${name}</code></th><td>${one}</td><td>${other}</td></tr>`)}</tbody></table>`;
}
