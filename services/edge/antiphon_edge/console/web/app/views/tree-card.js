/** One node of the tree as a card, or a run of nodes. @import { Placed, Spot } from "../../types" */
import { askedOf, shortId, summaryOf } from "../core/texts.js";
import { html } from "../parts/html.js";
import { Icon } from "../parts/icons.js";
import { useLoading } from "../parts/loading.js";
import { Status } from "../parts/status.js";
import * as forest from "../state/forest.js";
import * as library from "../state/library.js";
import { go } from "../state/router.js";
import { STRINGS } from "../strings.js";
import { select } from "../state/tree-view.js";
import { CacheBar } from "./cache.js";

/** Delay before a card loads its response, so that cards that only pass by while the tree moves cause no requests. */
const LOAD_AFTER_MS = 150;

/** @param {{ placed: Placed, isActive: boolean }} props */
export function TreeCard({ placed, isActive }) {
  const { spot, x, y } = placed;
  return spot.ids.length > 1 ? html`<${Run} spot=${spot} x=${x} y=${y} isActive=${isActive} />` : html`<${Node} spot=${spot} x=${x} y=${y} isActive=${isActive} />`;
}

/** @param {{ spot: Spot, x: number, y: number, isActive: boolean }} props */
function Node({ spot, x, y, isActive }) {
  const { id } = spot;
  void forest.changes.value;
  const node = forest.tree.value.nodes.get(id);
  const { response, input } = library.read(id);
  const isReadable = node?.status !== null;
  useLoading(() => {
    if (!isReadable) return undefined;
    const timer = setTimeout(() => void library.load(id), LOAD_AFTER_MS);
    return () => clearTimeout(timer);
  }, [id, isReadable]);
  const asked = input ? askedOf(input) : "";
  const said = response ? summaryOf(response) : "";
  return html`<div ...${itemProps(spot, isActive)} class="card" style=${{ left: `${x}px`, top: `${y}px` }}
      onClick=${() => select(id)} onDblClick=${() => go({ view: "chat", id })}>
    <p class="asked"><${Status} status=${isReadable ? (response?.status ?? node?.status ?? null) : null} /><span>${asked || shortId(id)}</span></p>
    <p class="said">${said}</p>
    <${CacheBar} response=${response} />
    ${spot.missing > 0 && html`<button type="button" class="missing small" tabindex="-1" title=${STRINGS.tree.notLoaded(spot.missing)} onClick=${() => void forest.loadMore()}>+${spot.missing}</button>`}
  </div>`;
}

/** @param {{ spot: Spot, x: number, y: number, isActive: boolean }} props */
function Run({ spot, x, y, isActive }) {
  return html`<div ...${itemProps(spot, isActive)} class="card run" style=${{ left: `${x}px`, top: `${y}px` }} aria-expanded="false" aria-label=${STRINGS.tree.runLabel(spot.ids.length)}
      onClick=${() => select(spot.id)} onDblClick=${() => forest.toggleRun(spot.ids)}>
    <${Icon} name="folded" /><span>${STRINGS.tree.run(spot.ids.length)}</span>
  </div>`;
}

/** @param {Spot} spot @param {boolean} isActive */
function itemProps(spot, isActive) {
  const siblings = spot.parent?.children ?? [spot];
  return {
    id: `node-${spot.id}`,
    role: "treeitem",
    "aria-level": spot.level + 1,
    "aria-setsize": siblings.length,
    "aria-posinset": siblings.indexOf(spot) + 1,
    "aria-selected": isActive,
  };
}
