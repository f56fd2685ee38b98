/** Background responses as they run. @import { Node } from "../../types" */
import { useState } from "preact/hooks";
import { UNFINISHED } from "../core/fold.js";
import { idIn } from "../core/route.js";
import { answerOf, oneLine, shortId, summaryOf } from "../core/texts.js";
import { ErrorNote } from "../parts/error-note.js";
import { html } from "../parts/html.js";
import { useLoading } from "../parts/loading.js";
import { Status } from "../parts/status.js";
import * as forest from "../state/forest.js";
import * as library from "../state/library.js";
import { cancelRun, followed, followIfRunning, followRun, runs } from "../state/runs.js";
import { STRINGS } from "../strings.js";

const S = STRINGS.live;
const TAIL = 220;

/** @param {{ id: string | null }} props */
export function Live({ id }) {
  const [typed, setTyped] = useState("");
  void forest.changes.value;
  const unfinished = [...forest.tree.value.nodes.values()].filter(mayBeFollowed).map((node) => node.id);
  const ids = [...new Set([...runs.value, ...unfinished])];
  useLoading(() => {
    if (id) void followRun(id);
  }, [id]);
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    const wanted = idIn(typed);
    if (wanted) void followRun(wanted);
    setTyped("");
  };
  return html`<div class="page">
    <header class="bar"><h1>${S.title}</h1>
      <form class="jump" onSubmit=${submit}><input aria-label=${S.id} placeholder=${S.id} value=${typed} spellcheck=${false} onInput=${(/** @type {any} */ event) => setTyped(event.currentTarget.value)} />
        <button type="submit" class="quiet">${S.follow}</button></form>
    </header>
    <p class="lead">${S.lead}</p>
    ${ids.length === 0 ? html`<div class="empty"><h2>${S.empty}</h2><p>${S.emptyLead}</p></div>` : html`<ul class="runs">${ids.map((each) => html`<${Run} key=${each} id=${each} />`)}</ul>`}
  </div>`;
}

/** Whether a node may be a background response: one that this tab runs in the foreground is none. @param {Node} node */
const mayBeFollowed = ({ id, status }) => UNFINISHED.has(status ?? "") && library.peek(id).response?.background !== false;

/** @param {{ id: string }} props */
function Run({ id }) {
  const { response, arrivals, error } = library.read(id);
  const [isCancelling, setCancelling] = useState(false);
  const isFollowed = followed.value.has(id);
  const isLost = followed.value.get(id) === true;
  const isRunning = response === null || UNFINISHED.has(response.status);
  useLoading(() => void followIfRunning(id), [id]);
  const last = arrivals.at(-1)?.event.sequence_number ?? 0;
  const cancel = async () => {
    setCancelling(true);
    await cancelRun(id);
    setCancelling(false);
  };
  return html`<li class="run-row" data-id=${id}>
    <div class="head">
      ${response && html`<${Status} status=${response.status} word=${true} />`}
      <code>${shortId(id)}</code>
      <span class="figures"><span>${response?.model}</span><span class="behind">${S.behind(last)}</span>${isFollowed && !isLost && html`<span class="pulse">${S.following}</span>`}</span>
      <span class="spacer"></span>
      ${isRunning && !isFollowed && html`<button type="button" class="small" onClick=${() => void followRun(id)}>${S.follow}</button>`}
      ${isRunning && html`<button type="button" class="small danger" disabled=${isCancelling} onClick=${() => void cancel()}>${isCancelling ? S.cancelling : S.cancel}</button>`}
      <a class="button small" href=${`#/response/${id}`}>${S.open}</a>
    </div>
    ${isLost && html`<p class="note warning" role="status">${S.lost} ${last}</p>`}
    ${response && html`<p class="tail">${tail(answerOf(response) || summaryOf(response))}</p>`}
    ${error !== null && html`<${ErrorNote} error=${error} />`}
  </li>`;
}

/** The end of a text, where new text appears. @param {string} text */
const tail = (text) => (text.length > TAIL ? `…${oneLine(text.slice(-TAIL), TAIL)}` : oneLine(text, TAIL));
