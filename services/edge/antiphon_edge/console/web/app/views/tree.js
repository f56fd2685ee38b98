/** The tree of a conversation's responses, and the details of one of them. */
import { useEffect, useRef } from "preact/hooks";
import { idIn } from "../core/route.js";
import { ErrorNote } from "../parts/error-note.js";
import { html } from "../parts/html.js";
import { useLoading } from "../parts/loading.js";
import * as conversation from "../state/conversation.js";
import * as forest from "../state/forest.js";
import { go, route } from "../state/router.js";
import { kept, layout, selected } from "../state/tree-view.js";
import { STRINGS } from "../strings.js";
import { TreeCanvas } from "./tree-canvas.js";
import { TreeDetails } from "./tree-details.js";

/** @param {{ id: string | null }} props */
export function TreeView({ id }) {
  const jump = useRef(/** @type {HTMLInputElement | null} */ (null));
  useLoading(() => {
    if (id && (id !== selected.peek() || !forest.tree.peek().nodes.has(id))) void open(id);
  }, [route.value]); // a step back to the same tree may follow the end of its conversation
  useEffect(() => void (forest.tree.peek().nodes.has(id ?? "") && forest.refresh()), []);
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    const wanted = idIn(jump.current?.value ?? "");
    if (wanted) go({ view: "tree", id: wanted });
  };
  return html`<div class="tree-view">
    <section class="canvas-side" aria-label=${STRINGS.tree.title}>
      <header class="bar">
        <h1>${STRINGS.tree.title}</h1>
        <form class="jump" onSubmit=${submit}>
          <input ref=${jump} id="jump" aria-label=${STRINGS.tree.jump} placeholder=${STRINGS.tree.jump} spellcheck=${false} autocomplete="off" />
          <button type="submit" class="quiet">${STRINGS.tree.go}</button>
        </form>
      </header>
      ${forest.problem.value !== null && html`<${ErrorNote} error=${forest.problem.value} />`}
      ${layout.value.levels.length === 0
        ? html`<div class="empty"><h2>${STRINGS.tree.empty}</h2><p>${STRINGS.tree.lead}</p></div>`
        : html`<${TreeCanvas} onJump=${() => jump.current?.focus()} />`}
    </section>
    ${selected.value !== null && layout.value.byId.has(selected.value) && html`<${TreeDetails} id=${selected.value} />`}
  </div>`;
}

/** Selects a response in its tree, unless the user goes elsewhere while the tree is loaded. @param {string} id */
async function open(id) {
  await forest.openTreeOf(id);
  const at = route.peek();
  if (at.view !== "tree" || at.id !== id || !forest.tree.peek().nodes.has(id)) return;
  const folded = /** @type {string[]} */ (layout.peek().byId.get(id)?.spot.ids ?? []).length > 1;
  if (folded) kept.value = new Set([...kept.peek(), id]);
  selected.value = id;
  if (!conversation.path.peek().includes(id)) void conversation.show(id);
}
