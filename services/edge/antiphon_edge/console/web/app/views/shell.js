/** The frame around all views: navigation and signing out. */
import { askedOf, shortId } from "../core/texts.js";
import { html } from "../parts/html.js";
import { Icon } from "../parts/icons.js";
import { useLoading } from "../parts/loading.js";
import * as conversation from "../state/conversation.js";
import * as library from "../state/library.js";
import { forget, recent } from "../state/recent.js";
import { go, route } from "../state/router.js";
import { followed } from "../state/runs.js";
import { hasKey, isAsking, models, signOut } from "../state/session.js";
import { toggleTheme } from "../state/theme.js";
import { STRINGS } from "../strings.js";
import { Approvals } from "./approvals.js";
import { Chat } from "./chat.js";
import { Compare } from "./compare.js";
import { Live } from "./live.js";
import { ResponseView } from "./response.js";
import { SignIn } from "./sign-in.js";
import { TreeView } from "./tree.js";

export function Shell() {
  if (models.value === null) return isAsking.value ? html`<p class="waiting" role="status">${STRINGS.signIn.checking}</p>` : html`<${SignIn} />`;
  return html`<a class="skip" href="#content" onClick=${skip}>${STRINGS.skip}</a>
    <${Side} />
    <main id="content" tabindex="-1"><${View} /></main>`;
}

/** @param {Event} event */
function skip(event) {
  event.preventDefault();
  document.getElementById("content")?.focus();
}

function View() {
  const at = route.value;
  switch (at.view) {
    case "tree":
      return html`<${TreeView} id=${at.id} />`;
    case "response":
      return html`<${ResponseView} key=${at.id} id=${at.id} />`;
    case "compare":
      return html`<${Compare} left=${at.id} right=${at.other} />`;
    case "approvals":
      return html`<${Approvals} />`;
    case "live":
      return html`<${Live} id=${at.id} />`;
    default:
      return html`<${Chat} id=${at.id} />`;
  }
}

function Side() {
  const here = route.value.view;
  const head = conversation.head.value;
  const running = followed.value.size;
  const link = (/** @type {"chat" | "tree" | "live" | "approvals"} */ view, /** @type {string} */ address, /** @type {any} */ badge = null) =>
    html`<a href=${address} aria-current=${here === view ? "page" : undefined}><${Icon} name=${view} /><span>${STRINGS.nav[view]}</span>${badge}</a>`;
  return html`<aside class="side">
    <a class="brand" href="#/chat" onClick=${() => conversation.begin()}><${Mark} />${STRINGS.name}</a>
    <nav aria-label=${STRINGS.nav.label}>
      ${link("chat", head ? `#/chat/${head}` : "#/chat")}
      ${link("tree", head ? `#/tree/${head}` : "#/tree")}
      ${link("live", "#/live", running > 0 && html`<span class="badge" title=${STRINGS.live.running(running)}>${running}</span>`)}
      ${link("approvals", "#/approvals")}
    </nav>
    <button type="button" class="quiet wide fresh" onClick=${beginAnew}><${Icon} name="plus" /><span>${STRINGS.nav.fresh}</span></button>
    <${Recents} />
    <div class="foot">
      <button type="button" class="quiet square" aria-label=${STRINGS.theme.toggle} onClick=${toggleTheme}><${Icon} name="theme" /></button>
      ${hasKey.value && html`<button type="button" class="quiet" onClick=${signOut}><${Icon} name="out" /><span>${STRINGS.signOut}</span></button>`}
    </div>
  </aside>`;
}

function beginAnew() {
  conversation.begin();
  go({ view: "chat", id: null });
}

function Mark() {
  return html`<svg class="mark" viewBox="0 0 32 32" aria-hidden="true"><path d="M16 9v4c0 4-6 3-6 8M16 13c0 4 6 3 6 8" /><circle cx="16" cy="8" r="3" /><circle cx="10" cy="23" r="3" /><circle cx="22" cy="23" r="3" /></svg>`;
}

function Recents() {
  if (recent.value.length === 0) return html`<div class="recents"></div>`;
  return html`<section class="recents" aria-label=${STRINGS.nav.recent}>
    <h2>${STRINGS.nav.recent}</h2>
    <ul>${recent.value.map((each) => html`<li key=${each.root}><${RecentLink} ...${each} /></li>`)}</ul>
  </section>`;
}

/** Loads the title of a conversation. Removes the conversation from the list if its first and its last response were deleted.
 * @param {string} root @param {string} head */
async function title(root, head) {
  if ((await isGone(root)) && (await isGone(head))) forget(root);
}

/** Whether the server does not have a response any more. @param {string} id */
async function isGone(id) {
  await library.load(id);
  return library.isAbsent(id);
}

/** @param {{ root: string, head: string }} props */
function RecentLink({ root, head }) {
  const { input } = library.read(root);
  useLoading(() => void title(root, head), [root, head, input === null]);
  const isHere = conversation.path.value[0] === root;
  return html`<a href=${`#/chat/${head}`} aria-current=${isHere ? "true" : undefined}>${(input && askedOf(input)) || shortId(root)}</a>`;
}
