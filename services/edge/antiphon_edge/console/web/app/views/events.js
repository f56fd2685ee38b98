/** The list of a response's events, and their replay. @import { Arrival } from "../../types" */
import { useEffect, useRef, useState } from "preact/hooks";
import { fold, UNFINISHED } from "../core/fold.js";
import { duration, paceOf } from "../core/timings.js";
import { ErrorNote } from "../parts/error-note.js";
import { html } from "../parts/html.js";
import { ItemView } from "../parts/items.js";
import { JsonView } from "../parts/json-view.js";
import { useLoading } from "../parts/loading.js";
import * as library from "../state/library.js";
import { api } from "../state/session.js";
import { STRINGS } from "../strings.js";

const S = STRINGS.events;
const ROW = 28;
const HEIGHT = 420;

/** @param {{ id: string }} props */
export function Events({ id }) {
  const { arrivals, sent, response } = library.read(id);
  const [problem, setProblem] = useState(/** @type {unknown} */ (null));
  const [chosen, setChosen] = useState(0);
  const [shown, setShown] = useState(/** @type {number | null} */ (null));
  const hasEnded = response !== null && !UNFINISHED.has(response.status);
  useLoading(() => {
    setProblem(null);
    if (hasEnded && arrivals.length === 0) void loadEvents(id).catch(setProblem);
  }, [id, hasEnded]);
  const choose = (/** @type {number} */ index) => (setChosen(index), setShown(null));
  const totalMs = sent ? null : response?.completed_at ? (response.completed_at - response.created_at) * 1000 : 2000;
  const replayed = shown === null ? null : fold(arrivals.slice(0, shown).map(({ event }) => event));
  return html`${problem !== null && html`<${ErrorNote} error=${problem} />`}
    <${Player} arrivals=${arrivals} times=${paceOf(arrivals, totalMs)} isOriginal=${totalMs === null} onShow=${setShown} />
    ${replayed && html`<div class="replayed" aria-live="off">${replayed.output.map((item) => html`<${ItemView} item=${item} />`)}</div>`}
    ${arrivals.length > 0 && html`<div class="events"><${List} arrivals=${arrivals} chosen=${shown === null ? chosen : shown - 1} onChoose=${choose} />
      <${JsonView} value=${arrivals[shown === null ? chosen : Math.max(0, shown - 1)]?.event} label=${S.raw(shown === null ? chosen : Math.max(0, shown - 1))} /></div>`}`;
}

/** Loads the events of a stored response. @param {string} id */
async function loadEvents(id) {
  const arrivals = /** @type {Arrival[]} */ ([]);
  for await (const event of api.events(id, -1)) arrivals.push({ event, at: 0 });
  library.note(id, { arrivals });
}

/** @param {{ arrivals: Arrival[], times: number[], isOriginal: boolean, onShow: (count: number | null) => void }} props */
function Player({ arrivals, times, isOriginal, onShow }) {
  const frame = useRef(0);
  const [isPlaying, setPlaying] = useState(false);
  useEffect(() => () => cancelAnimationFrame(frame.current), []);
  const play = () => {
    const begin = performance.now() - times[0];
    setPlaying(true);
    const tick = () => {
      const count = times.filter((time) => time <= performance.now() - begin).length;
      onShow(count);
      if (count < times.length) frame.current = requestAnimationFrame(tick);
      else stop(false);
    };
    tick();
  };
  const stop = (/** @type {boolean} */ early) => {
    cancelAnimationFrame(frame.current);
    setPlaying(false);
    if (early) onShow(null);
  };
  return html`<p class="player"><button type="button" disabled=${arrivals.length === 0} onClick=${isPlaying ? () => stop(true) : play}>${isPlaying ? S.pause : S.replay}</button>
    <span class="figures"><span>${S.count(arrivals.length)}</span><span>${isOriginal ? S.original : S.spread}</span></span></p>`;
}

/** A virtual list: only visible rows are drawn. @param {{ arrivals: Arrival[], chosen: number, onChoose: (index: number) => void }} props */
function List({ arrivals, chosen, onChoose }) {
  const [top, setTop] = useState(0);
  const first = Math.max(0, Math.floor(top / ROW) - 5);
  const rows = arrivals.slice(first, first + HEIGHT / ROW + 10);
  const press = (/** @type {KeyboardEvent} */ event) => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step === 0) return;
    event.preventDefault();
    onChoose(Math.min(arrivals.length - 1, Math.max(0, chosen + step)));
  };
  return html`<div class="event-list" role="listbox" tabindex="0" aria-label=${STRINGS.response.tabs.events} aria-activedescendant=${`event-${chosen}`}
      style=${{ maxHeight: `${HEIGHT}px` }} onScroll=${(/** @type {any} */ event) => setTop(event.currentTarget.scrollTop)} onKeyDown=${press}>
    <div role="presentation" style=${{ height: `${arrivals.length * ROW}px`, paddingTop: `${first * ROW}px` }}>
      ${rows.map(({ event, at }, index) => html`<div key=${first + index} id=${`event-${first + index}`} class="event" role="option" aria-selected=${first + index === chosen} onClick=${() => onChoose(first + index)}>
        <span class="number">${event.sequence_number}</span><span>${event.type}</span><span class="faint">${at > 0 ? duration(at) : ""}</span></div>`)}
    </div>
  </div>`;
}
