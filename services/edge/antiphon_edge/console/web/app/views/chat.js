/** The playground: one branch of a conversation, and a form to continue it. */
import { useRef, useState } from "preact/hooks";
import { exportItems } from "../parts/download.js";
import { ErrorNote } from "../parts/error-note.js";
import { html } from "../parts/html.js";
import { Icon } from "../parts/icons.js";
import { useLoading } from "../parts/loading.js";
import { Menu } from "../parts/menu.js";
import * as conversation from "../state/conversation.js";
import * as forest from "../state/forest.js";
import { go, route } from "../state/router.js";
import { STRINGS } from "../strings.js";
import { Composer } from "./composer.js";
import { CodeDialog } from "./code-dialog.js";
import { SettingsPanel } from "./settings-panel.js";
import { Thread } from "./thread.js";

/** @param {{ id: string | null }} props */
export function Chat({ id }) {
  const [showsSettings, setShowsSettings] = useState(innerWidth > 1100);
  const [showsCode, setShowsCode] = useState(false);
  const opened = useRef(/** @type {string | null | undefined} */ (undefined));
  useLoading(() => {
    if (opened.current === id && conversation.head.peek() !== null && forest.problem.peek() === null) return;
    opened.current = id;
    if (id && id !== conversation.head.peek()) void conversation.show(id);
    else if (!id && conversation.head.peek() && !conversation.pending.peek()) conversation.begin();
  }, [route.value]); // a step back to the same response may follow the end of its conversation
  const head = conversation.head.value;
  return html`<div class=${showsSettings ? "chat with-panel" : "chat"}>
    <section class="talk" aria-label=${STRINGS.chat.title}>
      <header class="bar">
        <h1>${STRINGS.chat.title}</h1>
        <div class="actions">
          ${head && html`<button type="button" class="quiet" onClick=${() => go({ view: "tree", id: head })}><${Icon} name="tree" />${STRINGS.chat.tree}</button>
            <${Menu} label=${STRINGS.export.label} icon=${html`<${Icon} name="save" />`} items=${exportItems(head)} />`}
          <button type="button" class="quiet" onClick=${() => setShowsCode(true)}><${Icon} name="code" />${STRINGS.chat.code}</button>
          <button type="button" class="quiet" aria-pressed=${showsSettings} onClick=${() => setShowsSettings(!showsSettings)}><${Icon} name="sliders" />${STRINGS.settings.show}</button>
        </div>
      </header>
      ${forest.problem.value !== null && html`<${ErrorNote} error=${forest.problem.value} />`}
      <${Thread} />
      <${Composer} />
    </section>
    ${showsSettings && html`<${SettingsPanel} />`}
    ${showsCode && html`<${CodeDialog} onClose=${() => setShowsCode(false)} />`}
  </div>`;
}
