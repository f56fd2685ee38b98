/** Items of a conversation: messages, reasoning, tool calls and their outputs, images and files.
 * @import { Fields, Item } from "../../types" */
import { argumentsOf, reasoningOf, stringOf, textOf, toolOf } from "../core/texts.js";
import { STRINGS } from "../strings.js";
import { html } from "./html.js";
import { Icon } from "./icons.js";
import { Markdown } from "./markdown.js";

/** @param {{ item: Item, plain?: boolean }} props */
export function ItemView({ item, plain = false }) {
  if (item.type === "message" || item.type === undefined) return html`<${Message} item=${item} plain=${plain} />`;
  if (item.type === "reasoning") return html`<${Reasoning} item=${item} />`;
  if (item.type.endsWith("_call_output")) return html`<${Tool} verb=${STRINGS.item.output} name=${item.call_id} text=${stringOf(item.output)} />`;
  if (item.type.endsWith("_call")) return html`<${Tool} verb=${STRINGS.item.call} name=${toolOf(item)} text=${argumentsOf(item)} />`;
  return html`<${Tool} verb="" name=${item.type} text=${JSON.stringify(item, null, 2)} />`;
}

/** @param {{ item: Item, plain: boolean }} props */
function Message({ item, plain }) {
  const text = textOf(item);
  const parts = Array.isArray(item.content) ? item.content : [];
  return html`${text && (plain ? html`<div class="plain">${text}</div>` : html`<${Markdown} text=${text} />`)}
    ${parts.filter((part) => part.type === "input_image").map((part) => html`<${Picture} part=${part} />`)}
    ${parts.filter((part) => part.type === "input_file").map((part) => html`<span class="chip"><${Icon} name="clip" />${part.filename ?? STRINGS.item.file}</span>`)}`;
}

/** An image as a data URL. Images on other servers are not loaded: that would reveal the user to the server. @param {{ part: Fields }} props */
function Picture({ part }) {
  const url = String(part.image_url ?? "");
  if (!url.startsWith("data:image/")) return html`<span class="chip">${STRINGS.item.imageElsewhere}</span>`;
  return html`<img class="picture" src=${url} alt=${STRINGS.item.image} />`;
}

/** @param {{ item: Item }} props */
function Reasoning({ item }) {
  const text = reasoningOf(item);
  if (!text) return null;
  return html`<details class="reasoning" open=${item.status === "in_progress"}>
    <summary>${STRINGS.chat.thinking}</summary>
    <div class="plain">${text}</div>
  </details>`;
}

/** @param {{ verb: string, name: string, text: string }} props */
function Tool({ verb, name, text }) {
  return html`<div class="tool"><p><span class="verb">${verb}</span> <code>${name}</code></p><pre tabindex="0"><code>${pretty(text)}</code></pre></div>`;
}

/** Arguments, indented if they are complete JSON. @param {string} text */
function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
