/** A dialog with the present request as code. */
import { useState } from "preact/hooks";
import { LANGUAGES, snippet } from "../core/snippets.js";
import { CopyButton } from "../parts/copy-button.js";
import { Dialog } from "../parts/dialog.js";
import { html } from "../parts/html.js";
import { Tabs } from "../parts/tabs.js";
import * as conversation from "../state/conversation.js";
import { api } from "../state/session.js";
import { STRINGS } from "../strings.js";

/** @param {{ onClose: () => void }} props */
export function CodeDialog({ onClose }) {
  const [language, setLanguage] = useState(/** @type {string} */ ("curl"));
  const text = snippet(language, api.base.replace(/\/$/, ""), conversation.request.value.body);
  return html`<${Dialog} title=${STRINGS.chat.code} onClose=${onClose}>
    <${Tabs} label=${STRINGS.chat.code} tabs=${LANGUAGES.map((each) => [each, each])} chosen=${language} onChoose=${setLanguage}>
      <div class="code"><${CopyButton} text=${text} /><pre tabindex="0"><code>${text}</code></pre></div>
    <//>
  <//>`;
}
