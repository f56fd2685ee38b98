/** The drawn tree: cards, or marks at a small scale, and lines between them.
 * @import { Placed, Spot } from "../../types"
 * @import { View } from "../parts/stage.js" */
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { centred, fitted, revealing } from "../core/camera.js";
import { CARD } from "../core/layout.js";
import { edge, shapeOf } from "../core/shapes.js";
import { step } from "../core/walk.js";
import { html } from "../parts/html.js";
import { Icon } from "../parts/icons.js";
import { Stage } from "../parts/stage.js";
import { Status } from "../parts/status.js";
import * as conversation from "../state/conversation.js";
import * as forest from "../state/forest.js";
import { go } from "../state/router.js";
import { STRINGS } from "../strings.js";
import { layout, select, selected } from "../state/tree-view.js";
import { TreeCard } from "./tree-card.js";

const MARGIN = 48;
const MARK = 30;

/** @param {{ onJump: () => void }} props */
export function TreeCanvas({ onJump }) {
  const port = useRef(/** @type {HTMLElement | null} */ (null));
  const plane = useRef(/** @type {HTMLElement | null} */ (null));
  const stage = useRef(/** @type {Stage | null} */ (null));
  const [view, setView] = useState(/** @type {View | null} */ (null));
  const drawn = layout.value;
  const root = drawn.levels[0][0].spot.id;
  useLayoutEffect(() => {
    const made = new Stage(/** @type {HTMLElement} */ (port.current), /** @type {HTMLElement} */ (plane.current), setView, opening);
    stage.current = made;
    return () => made.stop();
  }, []);
  useLayoutEffect(() => stage.current?.open(), [root]);
  useEffect(() => reveal(stage.current), [selected.value, forest.expanded.value]);
  const places = view ? drawn.within(view.area) : [];
  const active = selected.value === null ? undefined : drawn.byId.get(selected.value)?.spot.id;
  return html`<div class="stage" ref=${port} role="tree" tabindex="0" aria-label=${STRINGS.tree.label}
      aria-activedescendant=${active && `node-${active}`} onKeyDown=${(/** @type {KeyboardEvent} */ event) => press(event, onJump)}>
      <div class="plane" ref=${plane} role="presentation">
        <${Lines} places=${places} />
        ${view?.isFar && html`<${Marks} places=${places} />`}
        ${places.filter(({ spot }) => !view?.isFar || spot.id === active).map((placed) => html`<${TreeCard} key=${placed.spot.id} placed=${placed} isActive=${placed.spot.id === active} />`)}
      </div>
    </div>
    <${Controls} stage=${stage} />`;
}

/** @param {{ width: number, height: number }} size */
function opening(size) {
  const { width, height, byId } = layout.peek();
  const all = fitted({ width, height }, size, MARGIN);
  const placed = byId.get(selected.peek() ?? "");
  if (all.scale > 0.6 || !placed) return all.scale > 0.6 ? all : topOf(size);
  return centred({ x: placed.x + CARD.width / 2, y: placed.y + CARD.height / 2 }, size, 0.9);
}

/** The root at the top of the view. @param {{ width: number, height: number }} size */
function topOf(size) {
  const { x } = layout.peek().levels[0][0];
  return { scale: 0.9, x: size.width / 2 - (x + CARD.width / 2) * 0.9, y: MARGIN };
}

/** @param {Stage | null} stage */
function reveal(stage) {
  const placed = layout.peek().byId.get(selected.peek() ?? "");
  if (!stage || !placed || stage.size.width === 0) return;
  const box = { left: placed.x, top: placed.y, right: placed.x + CARD.width, bottom: placed.y + CARD.height };
  stage.move(revealing(stage.camera, box, stage.size, MARGIN / 2));
}

/** The lines between the visible spots, their parents and their children. @param {{ places: Placed[] }} props */
function Lines({ places }) {
  const { byId, width, height } = layout.value;
  const path = new Set(forest.tree.value.pathTo(selected.value));
  const [plain, active] = [/** @type {Set<string>} */ (new Set()), /** @type {Set<string>} */ (new Set())];
  const draw = (/** @type {Spot} */ spot) => {
    if (!spot.parent) return;
    const line = edge(/** @type {Placed} */ (byId.get(spot.parent.id)), /** @type {Placed} */ (byId.get(spot.id)));
    (path.has(spot.id) ? active : plain).add(line);
  };
  for (const { spot } of places) {
    draw(spot);
    for (const child of spot.children) draw(child);
  }
  return html`<svg class="lines" width=${width} height=${height} aria-hidden="true"><path d=${[...plain].join("")} /><path class="active" d=${[...active].join("")} /></svg>`;
}

/** The marks. All marks of a status are one path, so that thousands of them are few elements. @param {{ places: Placed[] }} props */
function Marks({ places }) {
  const { width, height } = layout.value;
  const paths = /** @type {Record<string, string>} */ ({});
  for (const { spot, x, y } of places) {
    const status = forest.tree.value.nodes.get(spot.id)?.status ?? null;
    const name = status ?? "deleted";
    paths[name] = (paths[name] ?? "") + shapeOf(status)(x + CARD.width / 2, y + CARD.height / 2, MARK);
  }
  return html`<svg class="marks" width=${width} height=${height} aria-hidden="true">${Object.entries(paths).map(([status, d]) => html`<path data-status=${status} d=${d} />`)}</svg>`;
}

/** @param {{ stage: { current: Stage | null } }} props */
function Controls({ stage }) {
  const count = (void forest.changes.value, forest.tree.value.nodes.size);
  const isWhole = forest.isWhole.value;
  const fit = () => {
    const { width, height } = layout.peek();
    if (stage.current) stage.current.move(fitted({ width, height }, stage.current.size, MARGIN));
  };
  return html`<div class="controls">
      <button type="button" class="square" aria-label=${STRINGS.tree.zoomOut} onClick=${() => stage.current?.zoom(0.75)}><${Icon} name="minus" /></button>
      <button type="button" class="square" aria-label=${STRINGS.tree.zoomIn} onClick=${() => stage.current?.zoom(1.33)}><${Icon} name="plus" /></button>
      <button type="button" class="square" aria-label=${STRINGS.tree.fit} onClick=${fit}><${Icon} name="fit" /></button>
      <span class="count" role="status">${STRINGS.tree.nodes(count, isWhole)}</span>
      ${!isWhole && html`<button type="button" class="small" onClick=${() => void forest.loadMore()}>${STRINGS.tree.more}</button>`}
    </div>
    <${Legend} />`;
}

function Legend() {
  const present = new Set([...forest.tree.value.nodes.values()].map((node) => node.status));
  return html`<div class="legend">
    <span class="statuses">${[...present].map((status) => html`<${Status} status=${status} word=${true} />`)}</span>
    <span class="keys">${STRINGS.tree.keys.map(([key, meaning]) => html`<span><kbd>${key}</kbd> ${meaning}</span>`)}</span>
  </div>`;
}

/** @param {KeyboardEvent} event @param {() => void} onJump */
function press(event, onJump) {
  const placed = layout.peek().byId.get(selected.peek() ?? "") ?? layout.peek().levels[0][0];
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const next = step(placed.spot, event.key, neighbour);
  const act = ACTIONS[event.key];
  if (!next && !act && event.key !== "/") return;
  event.preventDefault();
  if (next) select(next.id);
  else if (event.key === "/") onJump();
  else act?.(placed.spot);
}

/** @type {Record<string, (spot: Spot) => void>} */
const ACTIONS = {
  Enter: (spot) => (spot.ids.length > 1 ? forest.toggleRun(spot.ids) : go({ view: "chat", id: spot.id })),
  f: ({ id }) => void conversation.fork(id).then(() => go({ view: "chat", id })),
  r: ({ id }) => void conversation.runAgain(id).then(() => go({ view: "chat", id })),
  c: ({ id }) => {
    const other = forest.tree.peek().siblingsOf(id).find((each) => each !== id);
    if (other) go({ view: "compare", id, other });
  },
};

/** @param {Spot} spot @param {-1 | 1} by */
function neighbour(spot, by) {
  const row = layout.peek().levels[spot.level];
  return row[row.findIndex((each) => each.spot === spot) + by]?.spot;
}
