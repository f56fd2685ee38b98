/** Usage and timing of a response. @import { Response, Usage } from "../../types" */
import { cachedTokensOf } from "../core/cached.js";
import { duration, timingsOf } from "../core/timings.js";
import { html } from "../parts/html.js";
import * as library from "../state/library.js";
import { STRINGS } from "../strings.js";

/** @param {{ response: Response }} props */
export function UsageAndTime({ response }) {
  return html`<div class="two"><section><h2>${STRINGS.usage.title}</h2>${response.usage ? html`<${Tokens} usage=${response.usage} />` : html`<p class="note">${STRINGS.usage.none}</p>`}</section>
    <section><h2>${STRINGS.timing.title}</h2><${Times} response=${response} /></section></div>`;
}

/** @param {{ usage: Usage }} props */
function Tokens({ usage }) {
  const S = STRINGS.usage;
  const reported = cachedTokensOf(usage);
  const cached = reported ?? 0;
  const reasoning = usage.output_tokens_details?.reasoning_tokens ?? 0;
  const parts = [
    { name: S.cached, tokens: cached, kind: "cached", shown: reported === null ? S.unreported : undefined },
    { name: S.fresh, tokens: usage.input_tokens - cached, kind: "fresh" },
    { name: S.reasoning, tokens: reasoning, kind: "reasoning" },
    { name: S.output, tokens: usage.output_tokens - reasoning, kind: "output" },
  ];
  return html`<${Bar} parts=${parts.map((part) => ({ ...part, size: part.tokens }))} />
    <table class="facts"><tbody>${parts.map(({ name, tokens, kind, shown }) => html`<tr><th scope="row"><i class="swatch" data-kind=${kind}></i>${name}</th><td>${shown ?? tokens.toLocaleString("en")}</td></tr>`)}
    <tr class="sum"><th scope="row">${S.total}</th><td>${usage.total_tokens.toLocaleString("en")}</td></tr></tbody></table>`;
}

/** @param {{ response: Response }} props */
function Times({ response }) {
  const S = STRINGS.timing;
  const { arrivals, sent } = library.read(response.id);
  const times = timingsOf(sent ? arrivals : [], response.usage?.output_tokens);
  const whole = response.completed_at ? (response.completed_at - response.created_at) * 1000 : null;
  if (times.total === null) return html`<table class="facts"><tbody><tr><th scope="row">${S.total}</th><td>${duration(whole)}</td></tr></tbody></table><p class="note">${S.elsewhere}</p>`;
  const start = times.firstToken ?? times.generated ?? times.total;
  const parts = [
    { name: S.queued, size: times.queued, kind: "cached" },
    { name: S.first, size: start - (times.queued ?? 0), kind: "fresh" },
    { name: S.generating, size: (times.generated ?? times.total) - start, kind: "output" },
    { name: S.commit, size: times.committed, kind: "reasoning", hint: S.commitHint },
  ].filter((part) => part.size !== null);
  return html`<${Bar} parts=${parts} />
    <table class="facts"><tbody>${parts.map(({ name, size, kind, hint }) => html`<tr title=${hint}><th scope="row"><i class="swatch" data-kind=${kind}></i>${name}</th><td>${duration(size)}</td></tr>`)}
    <tr class="sum"><th scope="row">${S.total}</th><td>${duration(times.total)}</td></tr>
    ${times.tokensPerSecond !== null && html`<tr><th scope="row">${S.speed}</th><td>${S.perSecond(times.tokensPerSecond)}</td></tr>`}</tbody></table>`;
}

/** @param {{ parts: { size: number | null, kind: string }[] }} props */
function Bar({ parts }) {
  return html`<div class="meter" aria-hidden="true">${parts.map(({ size, kind }) => html`<i data-kind=${kind} style=${{ flexGrow: Math.max(0, size ?? 0) }}></i>`)}</div>`;
}
