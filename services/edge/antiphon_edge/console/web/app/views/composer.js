/** The form for a message and its attachments. */
import { useEffect, useRef, useState } from "preact/hooks";
import { shortId } from "../core/texts.js";
import { readFiles } from "../parts/files.js";
import { html } from "../parts/html.js";
import { Icon } from "../parts/icons.js";
import * as conversation from "../state/conversation.js";
import { STRINGS } from "../strings.js";

export function Composer() {
  const field = useRef(/** @type {HTMLTextAreaElement | null} */ (null));
  const [isOver, setIsOver] = useState(false);
  const isRunning = conversation.stopper.value !== null;
  const text = conversation.draft.value;
  const isEmpty = text.trim() === "" && conversation.attachments.value.length === 0;
  useEffect(() => field.current?.focus(), [conversation.head.value, conversation.forkPoint.value]);
  useEffect(() => fit(field.current), [text]);
  const add = async (/** @type {Iterable<File> | null | undefined} */ files) => {
    const read = await readFiles(files ?? []);
    conversation.attachments.value = [...conversation.attachments.peek(), ...read];
  };
  const choose = (/** @type {any} */ event) => {
    void add(event.currentTarget.files);
    event.currentTarget.value = ""; // so that the browser tells of the same file again, if it was removed meanwhile
  };
  const drop = (/** @type {DragEvent} */ event) => {
    event.preventDefault();
    setIsOver(false);
    void add(event.dataTransfer?.files);
  };
  const press = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      if (!isEmpty) conversation.send();
    }
    if (event.key === "Escape") conversation.stopper.peek()?.abort();
  };
  return html`<form class=${isOver ? "composer over" : "composer"} onSubmit=${(/** @type {Event} */ event) => (event.preventDefault(), conversation.send())}
      onDragOver=${(/** @type {Event} */ event) => (event.preventDefault(), setIsOver(true))} onDragLeave=${() => setIsOver(false)} onDrop=${drop}>
    <${RerunNote} />
    <${Attachments} />
    <div class="row">
      <label class="button quiet square attach" title=${STRINGS.chat.attach}><${Icon} name="clip" /><span class="unseen">${STRINGS.chat.attach}</span>
        <input type="file" multiple class="unseen" onChange=${choose} /></label>
      <textarea ref=${field} rows="1" aria-label=${STRINGS.chat.message} placeholder=${STRINGS.chat.placeholder} value=${text}
        onInput=${(/** @type {any} */ event) => (conversation.draft.value = event.currentTarget.value)} onKeyDown=${press}
        onPaste=${(/** @type {ClipboardEvent} */ event) => void add(event.clipboardData?.files)}></textarea>
      ${isRunning
        ? html`<button type="button" class="primary round" aria-label=${STRINGS.chat.stop} onClick=${() => conversation.stopper.peek()?.abort()}><${Icon} name="stop" /></button>`
        : html`<button type="submit" class="primary round" aria-label=${STRINGS.chat.send} disabled=${isEmpty}><${Icon} name="send" /></button>`}
    </div>
    ${conversation.request.value.mistakes.length > 0 && html`<p class="mistake" role="status">${STRINGS.settings.fix}</p>`}
  </form>`;
}

/** A note that the message runs a response again, if it does. */
function RerunNote() {
  const rerun = conversation.rerunOf.value;
  if (rerun === null) return null;
  return html`<p class="place"><${Icon} name="again" />${STRINGS.chat.rerun(shortId(rerun))}
    <button type="button" class="small quiet" onClick=${() => ((conversation.rerunOf.value = null), (conversation.forkPoint.value = null))}>${STRINGS.chat.forkEnd}</button></p>`;
}

function Attachments() {
  const list = conversation.attachments.value;
  if (list.length === 0) return null;
  const remove = (/** @type {number} */ index) => (conversation.attachments.value = list.filter((_, at) => at !== index));
  return html`<ul class="attachments">${list.map(
    (each, index) => html`<li>${each.kind === "image" && html`<img src=${each.url} alt="" />`}<span>${each.name}</span>
      <button type="button" class="quiet square small" aria-label=${STRINGS.chat.remove(each.name)} onClick=${() => remove(index)}><${Icon} name="close" /></button></li>`,
  )}</ul>`;
}

/** Makes a field as high as its text. The style limits its height. @param {HTMLTextAreaElement | null} field */
function fit(field) {
  if (!field) return;
  field.style.height = "auto";
  field.style.height = `${field.scrollHeight}px`;
}
