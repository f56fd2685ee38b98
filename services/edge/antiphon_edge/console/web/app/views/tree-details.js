/** The details of the selected node. */
import { ErrorNote } from "../parts/error-note.js";
import { html } from "../parts/html.js";
import { Icon } from "../parts/icons.js";
import { ItemView } from "../parts/items.js";
import { useLoading } from "../parts/loading.js";
import { Menu } from "../parts/menu.js";
import { Status } from "../parts/status.js";
import * as conversation from "../state/conversation.js";
import * as forest from "../state/forest.js";
import * as library from "../state/library.js";
import { go } from "../state/router.js";
import { STRINGS } from "../strings.js";
import { exportItems } from "../parts/download.js";
import { layout } from "../state/tree-view.js";
import { CacheDetails } from "./cache.js";

const S = STRINGS.tree;

/** @param {{ id: string }} props */
export function TreeDetails({ id }) {
  void forest.changes.value;
  const node = forest.tree.value.nodes.get(id);
  const spot = layout.value.byId.get(id)?.spot;
  const isReadable = node?.status !== null;
  const { response, input, error } = library.read(id);
  useLoading(() => void (isReadable && library.load(id)), [id, isReadable]);
  if (!node || !spot) return null;
  return html`<aside class="details" aria-label=${S.details}>
    <header><${Status} status=${isReadable ? (response?.status ?? node.status) : null} word=${true} /><span class="figures"><span>${S.depth(node.depth)}</span><span>${S.continued(node.child_count)}</span></span></header>
    <code class="id">${id}</code>
    ${spot.ids.length > 1 && html`<button type="button" onClick=${() => forest.toggleRun(spot.ids)}>${S.unfold}: ${S.run(spot.ids.length)}</button>`}
    <div class="actions">
      <button type="button" class="primary" onClick=${() => go({ view: "chat", id })}>${S.open}</button>
      <button type="button" onClick=${() => void conversation.fork(id).then(() => go({ view: "chat", id }))}><${Icon} name="fork" />${S.fork}</button>
      <button type="button" onClick=${() => void conversation.runAgain(id).then(() => go({ view: "chat", id }))}><${Icon} name="again" />${S.again}</button>
      <a class="button" href=${`#/response/${id}`}><${Icon} name="open" />${S.details}</a>
      <${Siblings} id=${id} />
      <${Menu} label=${STRINGS.export.label} icon=${html`<${Icon} name="save" />`} items=${exportItems(id)} />
    </div>
    ${!isReadable && html`<p class="note">${STRINGS.item.notRead}</p>`}
    ${error !== null && html`<${ErrorNote} error=${error} />`}
    ${input && html`<h3>${S.asked}</h3>${input.map((item) => html`<${ItemView} item=${item} plain=${true} />`)}`}
    ${response && html`<h3>${S.answered}</h3>${response.output.map((item) => html`<${ItemView} item=${item} />`)}`}
    ${response && html`<${CacheDetails} response=${response} />`}
    ${response?.error && html`<p class="note error">${response.error.message}</p>`}
  </aside>`;
}

/** @param {{ id: string }} props */
function Siblings({ id }) {
  const siblings = forest.tree.value.siblingsOf(id);
  if (siblings.length < 2) return null;
  const items = siblings.map((other, index) => /** @type {[string, () => void, string]} */ ([S.sibling(index + 1), () => go({ view: "compare", id, other }), other]));
  return html`<${Menu} label=${S.compare} icon=${html`<${Icon} name="compare" />`} items=${items.filter(([, , other]) => other !== id).map(([name, act]) => [name, act])} />`;
}
