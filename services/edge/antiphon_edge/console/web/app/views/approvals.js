/** Calls of tools that wait for a person's answer. @import { Approval } from "../../types" */
import { useState } from "preact/hooks";
import { bodyOfAnswer, shownArguments } from "../core/approvals.js";
import { shortId } from "../core/texts.js";
import { ErrorNote } from "../parts/error-note.js";
import { html } from "../parts/html.js";
import { useLoading } from "../parts/loading.js";
import { go } from "../state/router.js";
import { api } from "../state/session.js";
import { STRINGS } from "../strings.js";

const S = STRINGS.approvals;

export function Approvals() {
  const [waiting, setWaiting] = useState(/** @type {Approval[] | null} */ (null));
  const [cursor, setCursor] = useState(/** @type {string | null} */ (null));
  const [error, setError] = useState(/** @type {unknown} */ (null));
  const load = async (/** @type {Approval[]} */ before, /** @type {string | null} */ after) => {
    try {
      const page = await api.approvals(after);
      setWaiting([...before, ...page.data]);
      setCursor(page.next_cursor);
      setError(null);
    } catch (caught) {
      setError(caught);
    }
  };
  useLoading(() => void load([], null), []);
  return html`<div class="page">
    <header class="bar"><h1>${S.title}</h1><button type="button" class="quiet" onClick=${() => void load([], null)}>${S.reload}</button></header>
    <p class="lead">${S.lead}</p>
    ${error !== null && html`<${ErrorNote} error=${error} />`}
    ${waiting?.length === 0 && html`<div class="empty"><h2>${S.empty}</h2><p>${S.emptyLead}</p></div>`}
    <ul class="runs">${waiting?.map((each) => html`<${Call} key=${each.id} approval=${each} onGone=${() => void load([], null)} />`)}</ul>
    ${cursor !== null && html`<button type="button" class="quiet" onClick=${() => void load(waiting ?? [], cursor)}>${S.more}</button>`}
  </div>`;
}

/** @param {{ approval: Approval, onGone: () => void }} props */
function Call({ approval, onGone }) {
  const [reason, setReason] = useState("");
  const [isSending, setSending] = useState(false);
  const [error, setError] = useState(/** @type {unknown} */ (null));
  const answer = async (/** @type {boolean} */ approve) => {
    setSending(true);
    try {
      const asker = await api.response(approval.response_id);
      const made = await api.create(bodyOfAnswer(asker, approval, approve, reason));
      go({ view: "response", id: made.id });
    } catch (caught) {
      setError(caught);
      setSending(false);
    }
  };
  return html`<li class="run-row" data-id=${approval.id}>
    <div class="head">
      <strong>${approval.server_label} · ${approval.name}</strong>
      <span class="figures"><time datetime=${new Date(approval.created_at * 1000).toISOString()}>${new Date(approval.created_at * 1000).toLocaleString()}</time></span>
      <span class="spacer"></span>
      <a class="button small" href=${`#/response/${approval.response_id}`}>${S.open(shortId(approval.response_id))}</a>
    </div>
    <pre aria-label=${S.arguments}>${shownArguments(approval.arguments)}</pre>
    <div class="head">
      <input aria-label=${S.reason} placeholder=${S.reason} value=${reason} disabled=${isSending} onInput=${(/** @type {any} */ event) => setReason(event.currentTarget.value)} />
      <span class="spacer"></span>
      <button type="button" class="small danger" disabled=${isSending} onClick=${() => void answer(false)}>${S.deny}</button>
      <button type="button" class="primary small" disabled=${isSending} onClick=${() => void answer(true)}>${isSending ? S.running : S.approve}</button>
    </div>
    ${error !== null && html`<${ErrorNote} error=${error}><button type="button" class="small" onClick=${onGone}>${S.reload}</button><//>`}
  </li>`;
}
