/** One turn: its input and output, its speed, and the actions on it.
 * @import { Response } from "../../types" */
import { UNFINISHED } from "../core/fold.js";
import { openCalls } from "../core/request.js";
import { shortId } from "../core/texts.js";
import { duration, timingsOf } from "../core/timings.js";
import { ErrorNote } from "../parts/error-note.js";
import { html } from "../parts/html.js";
import { Icon } from "../parts/icons.js";
import { ItemView } from "../parts/items.js";
import { useLoading } from "../parts/loading.js";
import { Status } from "../parts/status.js";
import * as conversation from "../state/conversation.js";
import * as forest from "../state/forest.js";
import * as library from "../state/library.js";
import { followIfRunning } from "../state/runs.js";
import { STRINGS } from "../strings.js";
import { ToolOutputs } from "./tool-outputs.js";

/** @param {{ id: string }} props */
export function Turn({ id }) {
  const { response, input, error } = library.read(id);
  useLoading(() => void followIfRunning(id), [id]);
  const isHead = conversation.head.value === id;
  const calls = response && isHead && response.status === "completed" ? openCalls(response) : [];
  return html`<article class="turn" data-id=${id}>
    ${input && html`<div class="asked"><span class="unseen">${STRINGS.chat.you}</span>${input.map((item) => html`<${ItemView} item=${item} plain=${true} />`)}</div>`}
    <${Branches} id=${id} />
    <div class="answered"><span class="unseen">${STRINGS.chat.assistant}</span>
      ${response && html`<${Answer} response=${response} />`}
      ${!response && !error && html`<p class="waiting" role="status">${STRINGS.loading}</p>`}
      ${error !== null && html`<${ErrorNote} error=${error} />`}
    </div>
    ${response && html`<${Foot} id=${id} response=${response} />`}
    ${calls.length > 0 && html`<${ToolOutputs} key=${id} calls=${calls} />`}
  </article>`;
}

/** @param {{ response: Response }} props */
function Answer({ response }) {
  const isEmpty = response.output.length === 0;
  return html`${response.output.map((item, index) => html`<${ItemView} key=${item.id ?? index} item=${item} />`)}
    ${isEmpty && UNFINISHED.has(response.status) && html`<p class="waiting" role="status">${STRINGS.chat.waiting}</p>`}
    ${response.error && html`<div class="note error" role="alert"><p class="said">${response.error.message}</p><p><code>${response.error.code}</code></p></div>`}
    ${response.incomplete_details && html`<p class="note">${STRINGS.response.incomplete(response.incomplete_details.reason)}</p>`}
    ${response.store === false && html`<p class="note">${STRINGS.chat.unstored}</p>`}`;
}

/** Navigation between this response and its siblings. @param {{ id: string }} props */
function Branches({ id }) {
  void forest.changes.value;
  const siblings = forest.tree.value.siblingsOf(id);
  if (siblings.length < 2) return null;
  const at = siblings.indexOf(id);
  const show = (/** @type {number} */ index) => void conversation.show(forest.tree.peek().newestLeaf(siblings[index]));
  return html`<div class="branches" role="group" aria-label=${STRINGS.chat.branch(at + 1, siblings.length)}>
    <button type="button" class="quiet square small" disabled=${at === 0} aria-label=${STRINGS.chat.before} onClick=${() => show(at - 1)}><${Icon} name="left" /></button>
    <span>${at + 1} / ${siblings.length}</span>
    <button type="button" class="quiet square small" disabled=${at === siblings.length - 1} aria-label=${STRINGS.chat.after} onClick=${() => show(at + 1)}><${Icon} name="right" /></button>
  </div>`;
}

/** @param {{ id: string, response: Response }} props */
function Foot({ id, response }) {
  const isRunning = UNFINISHED.has(response.status);
  const isHead = conversation.head.value === id;
  return html`<footer>
    <${Status} status=${response.status} word=${true} />
    <${Figures} id=${id} response=${response} />
    <span class="spacer"></span>
    ${!isRunning && html`<span class="actions">
      ${!isHead && html`<button type="button" class="small quiet" onClick=${() => void conversation.fork(id)}><${Icon} name="fork" />${STRINGS.chat.fork}</button>`}
      <button type="button" class="small quiet" disabled=${conversation.stopper.value !== null} onClick=${() => void conversation.retry(id)}><${Icon} name="again" />${STRINGS.chat.retry}</button>
    </span>`}
    <a class="small" href=${`#/response/${id}`}><code>${shortId(id)}</code></a>
  </footer>`;
}

/** @param {{ id: string, response: Response }} props */
function Figures({ id, response }) {
  const { arrivals, sent } = library.read(id);
  const { usage } = response;
  const timings = timingsOf(sent ? arrivals : [], usage?.output_tokens);
  const figures = [
    timings.firstToken !== null && STRINGS.timing.ttft(duration(timings.firstToken)),
    timings.tokensPerSecond !== null && STRINGS.timing.perSecond(timings.tokensPerSecond),
    usage && `${usage.input_tokens} → ${usage.output_tokens}`,
  ].filter(Boolean);
  return html`<span class="figures">${figures.map((each) => html`<span>${each}</span>`)}</span>`;
}
