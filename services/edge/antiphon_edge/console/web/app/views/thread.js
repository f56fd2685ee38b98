/** The turns of a branch, the newest at the bottom. */
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { html } from "../parts/html.js";
import { ItemView } from "../parts/items.js";
import { ErrorNote } from "../parts/error-note.js";
import * as conversation from "../state/conversation.js";
import { STRINGS } from "../strings.js";
import { Turn } from "./turn.js";

const SHOWN = 30;

export function Thread() {
  const [more, setMore] = useState(0);
  const path = conversation.path.value;
  const hidden = Math.max(0, path.length - SHOWN - more);
  const pending = conversation.pending.value;
  const list = useRef(/** @type {HTMLElement | null} */ (null));
  useStickyEnd(list, path.at(-1) ?? "", pending !== null);
  useEffect(() => setMore(0), [path[0]]);
  if (path.length === 0 && !pending) return html`<div class="thread empty"><h2>${STRINGS.chat.welcome}</h2><p>${STRINGS.chat.lead}</p></div>`;
  return html`<div class="thread" ref=${list} tabindex="0" role="log" aria-label=${STRINGS.chat.title}>
    <div class="column">
      ${hidden > 0 && html`<button type="button" class="quiet wide" onClick=${() => setMore(more + 100)}>${STRINGS.chat.earlier(hidden)}</button>`}
      ${path.slice(hidden).map((id) => html`<${Turn} key=${id} id=${id} />`)}
      ${pending && html`<${Pending} />`}
    </div>
  </div>`;
}

function Pending() {
  const pending = conversation.pending.value;
  if (!pending) return null;
  return html`<article class="turn">
    <div class="asked">${pending.input.map((item) => html`<${ItemView} item=${item} plain=${true} />`)}</div>
    ${pending.error === null
      ? html`<p class="waiting" role="status">${STRINGS.chat.waiting}</p>`
      : html`<${ErrorNote} error=${pending.error}><button type="button" onClick=${conversation.retryPending}>${STRINGS.chat.retry}</button><//>`}
  </article>`;
}

/** Scrolls to the end as it grows, unless the user has scrolled away from it.
 * @param {{ current: HTMLElement | null }} list @param {string} end @param {boolean} isPending */
function useStickyEnd(list, end, isPending) {
  const sticks = useRef(true);
  useLayoutEffect(() => {
    sticks.current = true;
    const element = list.current;
    if (element) element.scrollTop = element.scrollHeight;
  }, [end, isPending]);
  useEffect(() => {
    const element = list.current;
    if (!element) return undefined;
    const onScroll = () => (sticks.current = element.scrollHeight - element.scrollTop - element.clientHeight < 48);
    const grown = new ResizeObserver(() => {
      if (sticks.current) element.scrollTop = element.scrollHeight;
    });
    element.addEventListener("scroll", onScroll, { passive: true });
    grown.observe(/** @type {Element} */ (element.firstElementChild));
    return () => (element.removeEventListener("scroll", onScroll), grown.disconnect());
  }, [list.current]);
}
