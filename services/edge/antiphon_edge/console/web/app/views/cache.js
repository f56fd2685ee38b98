/** What of a prompt was cached, lost and new, and why. @import { CacheFacts, Response } from "../../types" */
import { useState } from "preact/hooks";
import { cachePartsOf, cachedTokensOf } from "../core/cached.js";
import { ErrorNote } from "../parts/error-note.js";
import { html } from "../parts/html.js";
import { useLoading } from "../parts/loading.js";
import * as caches from "../state/caches.js";
import { STRINGS } from "../strings.js";

const S = STRINGS.cache;
const NO_PARTS = cachePartsOf({ input_tokens: 0, output_tokens: 0, total_tokens: 0 }, null);

/** The parts of a response's prompt, and the facts behind them; null where the engine reports nothing of its cache.
 * @param {Response | null} response */
function useCache(response) {
  const { id, usage } = response ?? {};
  const isReported = Boolean(usage && cachedTokensOf(usage) !== null);
  useLoading(() => void (id && isReported && caches.load(id)), [id, isReported]);
  const facts = id && isReported ? caches.read(id) : null;
  return usage && isReported ? { facts, parts: cachePartsOf(usage, facts) } : null;
}

/** The bar of a card, which screen readers find as a table in the details. Its elements stay the same, so that a response
 * that arrives while the tree moves changes none.
 * @param {{ response: Response | null }} props */
export function CacheBar({ response }) {
  const found = useCache(response);
  const { parts, facts } = found ?? { parts: NO_PARTS, facts: null };
  const text = parts.map(({ kind, tokens }) => `${S[kind]} ${tokens.toLocaleString("en")}`).join(", ");
  return html`<div class="meter cache" aria-hidden="true" hidden=${!found} title=${facts?.replica ? `${text} · ${S.replica} ${facts.replica}` : text}>${parts.map(
    ({ kind, tokens }) => html`<i data-kind=${kind} style=${{ flexGrow: tokens }}></i>`,
  )}</div>`;
}

/** The section of the details. @param {{ response: Response }} props */
export function CacheDetails({ response }) {
  const found = useCache(response);
  const [report, setReport] = useState(/** @type {CacheFacts | null} */ (null));
  const [problem, setProblem] = useState(/** @type {unknown} */ (null));
  if (!found) return null;
  const why = () => void caches.explain(response.id).then(setReport, setProblem);
  const shown = report?.response_id === response.id ? report : null;
  return html`<h3>${S.title}</h3><${CacheBar} response=${response} />
    <table class="facts"><tbody>${found.parts.map(({ kind, tokens }) => html`<tr><th scope="row"><i class="swatch" data-kind=${kind}></i>${S[kind]}</th><td>${tokens.toLocaleString("en")}</td></tr>`)}
    ${found.facts?.replica && html`<tr><th scope="row">${S.replica}</th><td><code>${found.facts.replica}</code></td></tr>`}</tbody></table>
    ${response.previous_response_id && html`<div class="actions"><button type="button" onClick=${why}>${S.why}</button></div>`}
    ${problem !== null && html`<${ErrorNote} error=${problem} />`}
    ${shown && html`<${Reasons} report=${shown} />`}`;
}

/** @param {{ report: CacheFacts }} props */
function Reasons({ report }) {
  const difference = report.comparison?.first_difference;
  const lost = Object.entries(report.lost).filter(([cause]) => cause !== difference?.cause);
  return html`<div class="why" role="status">
    ${difference && html`<p class="note"><strong>${S.causes[difference.cause] ?? difference.cause}</strong> ${S.where(difference.token, difference.path)}</p>`}
    ${difference?.before && html`<pre class="diff"><del>${difference.before}</del></pre>`}
    ${difference?.after && html`<pre class="diff"><ins>${difference.after}</ins></pre>`}
    ${lost.map(([cause, tokens]) => html`<p class="note">${S.causes[cause] ?? cause}: ${S.tokens(tokens)}</p>`)}
    ${!difference && lost.length === 0 && html`<p class="note">${S.nothing}</p>`}
  </div>`;
}
