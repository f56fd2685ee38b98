/** A form for the outputs of tool calls. @import { Item } from "../../types" */
import { useState } from "preact/hooks";
import { outputsOf } from "../core/request.js";
import { html } from "../parts/html.js";
import * as conversation from "../state/conversation.js";
import { STRINGS } from "../strings.js";

/** @param {{ calls: Item[] }} props */
export function ToolOutputs({ calls }) {
  const [outputs, setOutputs] = useState(/** @type {Record<string, string>} */ ({}));
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    conversation.sendOutputs(outputsOf(calls, outputs));
  };
  return html`<form class="outputs" onSubmit=${submit}>
    <p>${STRINGS.chat.outputs}</p>
    ${calls.map((call) => html`<label>${STRINGS.chat.outputOf(call.name)}
      <textarea rows="2" required value=${outputs[call.call_id] ?? ""} onInput=${(/** @type {any} */ event) => setOutputs({ ...outputs, [call.call_id]: event.currentTarget.value })}></textarea>
    </label>`)}
    <button type="submit" class="primary" disabled=${conversation.stopper.value !== null}>${STRINGS.chat.sendOutputs}</button>
  </form>`;
}
