/** One response: its items, request, usage and events. @import { Response } from "../../types" */
import { useState } from "preact/hooks";
import { ErrorNote } from "../parts/error-note.js";
import { html } from "../parts/html.js";
import { Icon } from "../parts/icons.js";
import { ItemView } from "../parts/items.js";
import { JsonView } from "../parts/json-view.js";
import { useLoading } from "../parts/loading.js";
import { Status } from "../parts/status.js";
import { Tabs } from "../parts/tabs.js";
import * as forest from "../state/forest.js";
import * as library from "../state/library.js";
import { go } from "../state/router.js";
import { followIfRunning, unwatch } from "../state/runs.js";
import { api } from "../state/session.js";
import { STRINGS } from "../strings.js";
import { Events } from "./events.js";
import { UsageAndTime } from "./usage.js";

const S = STRINGS.response;

/** @param {{ id: string | null }} props */
export function ResponseView({ id }) {
  const [tab, setTab] = useState("items");
  const [problem, setProblem] = useState(/** @type {unknown} */ (null));
  useLoading(() => void (id && followIfRunning(id)), [id]);
  if (!id) return html`<div class="page"><div class="empty"><h2>${S.title}</h2><p>${STRINGS.tree.lead}</p></div></div>`;
  const { response, error } = library.read(id);
  const shown = problem ?? error;
  return html`<div class="page">
    <header class="bar"><h1>${S.title}</h1>
      <div class="actions">
        <a class="button quiet" href=${`#/tree/${id}`}><${Icon} name="tree" />${S.inTree}</a>
        <a class="button quiet" href=${`#/chat/${id}`}><${Icon} name="chat" />${S.continue}</a>
        <${TraceLink} id=${id} />
        <${Remove} id=${id} onProblem=${setProblem} />
      </div>
    </header>
    ${shown !== null && html`<${ErrorNote} error=${shown} />`}
    ${!response && error === null && html`<p class="waiting" role="status">${STRINGS.loading}</p>`}
    ${response && html`<${Facts} response=${response} />
      <${Tabs} label=${S.title} tabs=${Object.entries(S.tabs)} chosen=${tab} onChoose=${setTab}><${Tab} tab=${tab} response=${response} /><//>`}
  </div>`;
}

/** @param {{ tab: string, response: Response }} props */
function Tab({ tab, response }) {
  if (tab === "request") return html`<${Request} response=${response} />`;
  if (tab === "usage") return html`<${UsageAndTime} response=${response} />`;
  if (tab === "events") return html`<${Events} id=${response.id} />`;
  return html`<${Items} response=${response} />`;
}

/** @param {{ response: Response }} props */
function Facts({ response }) {
  const { requestId } = library.read(response.id);
  const rows = [
    [S.created, when(response.created_at)],
    [S.finished, response.completed_at ? when(response.completed_at) : null],
    [STRINGS.settings.model, response.model],
    [S.request, requestId],
  ].filter(([, value]) => value);
  return html`<div class="facts-head">
    <p><${Status} status=${response.status} word=${true} /> <code class="id">${response.id}</code></p>
    <dl>${rows.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}
      ${response.previous_response_id && html`<div><dt>${S.previous}</dt><dd><a href=${`#/response/${response.previous_response_id}`}><code>${response.previous_response_id}</code></a></dd></div>`}</dl>
    ${response.error && html`<div class="note error" role="alert"><p class="said">${response.error.message}</p><p><code>${response.error.code}</code></p></div>`}
  </div>`;
}

/** @param {number} seconds */
const when = (seconds) => new Date(seconds * 1000).toLocaleString();

/** @param {{ response: Response }} props */
function Items({ response }) {
  const { input } = library.read(response.id);
  return html`<h2>${S.input}</h2>${(input ?? []).map((item) => html`<${Item} item=${item} plain=${true} />`)}
    <h2>${S.output}</h2>${response.output.map((item) => html`<${Item} item=${item} />`)}`;
}

/** @param {{ item: import("../../types").Item, plain?: boolean }} props */
function Item({ item, plain = false }) {
  return html`<section class="item"><header><code>${item.type ?? "message"}</code>${item.role && html`<span>${item.role}</span>`}<code class="faint">${item.id}</code></header><${ItemView} item=${item} plain=${plain} /></section>`;
}

/** @param {{ response: Response }} props */
function Request({ response }) {
  const { sent } = library.read(response.id);
  const { output, usage, error, ...resolved } = response;
  return html`<h2>${S.sent}</h2>${sent ? html`<${JsonView} value=${sent} label=${S.sent} />` : html`<p class="note">${S.sentElsewhere}</p>`}
    <h2>${S.resolved}</h2><${JsonView} value=${resolved} label=${S.resolved} />`;
}

/** A link to the trace, if the operator has configured a trace URL and this tab knows the trace id. @param {{ id: string }} props */
function TraceLink({ id }) {
  const { traceId } = library.read(id);
  const template = document.querySelector('meta[name="antiphon-trace-url"]')?.getAttribute("content") ?? "";
  if (!traceId || !template) return null;
  return html`<a class="button quiet" target="_blank" rel="noopener noreferrer" href=${template.replace("{trace_id}", traceId)}><${Icon} name="open" />${S.trace}</a>`;
}

/** @param {{ id: string, onProblem: (problem: unknown) => void }} props */
function Remove({ id, onProblem }) {
  const remove = async () => {
    if (!confirm(S.removeSure)) return;
    onProblem(null);
    try {
      await api.remove(id);
      library.forget(id);
      forest.markDeleted(id);
      unwatch(id);
      go({ view: "chat", id: null });
    } catch (error) {
      onProblem(error);
    }
  };
  return html`<button type="button" class="quiet danger" onClick=${() => void remove()}>${S.remove}</button>`;
}
