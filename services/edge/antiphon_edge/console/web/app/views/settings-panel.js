/** The parameters of the next request, each with its mistakes.
 * @import { Mistake, Settings } from "../../types" */
import { html } from "../parts/html.js";
import * as conversation from "../state/conversation.js";
import { models } from "../state/session.js";
import { STRINGS } from "../strings.js";

const S = STRINGS.settings;
const EFFORTS = ["none", "minimal", "low", "medium", "high"];
const EXAMPLE = [
  {
    type: "function",
    name: "get_weather",
    description: "The weather in a city",
    parameters: {
      type: "object",
      properties: { city: { type: "string" } },
      required: ["city"],
      additionalProperties: false,
    },
  },
];

/** @param {Partial<Settings>} changes */
function change(changes) {
  conversation.rejected.value = null;
  conversation.settings.value = { ...conversation.settings.peek(), ...changes };
}

export function SettingsPanel() {
  const settings = conversation.effectiveSettings();
  const rejected = conversation.rejected.value;
  const mistakes = [...conversation.request.value.mistakes, ...(rejected ? [rejected] : [])];
  const number = (/** @type {keyof Settings} */ name, /** @type {string} */ label) =>
    html`<${Field} label=${label} mistakes=${mistakes.filter((each) => each.field === name)}
      control=${(/** @type {any} */ props) => html`<input ...${props} inputmode="decimal" placeholder=${S.default} value=${settings[name]} onInput=${(/** @type {any} */ event) => change({ [name]: event.currentTarget.value })} />`} />`;
  return html`<aside class="panel" aria-label=${S.title}>
    <h2>${S.title}</h2>
    <${Field} label=${S.model} control=${(/** @type {any} */ props) => html`<select ...${props} value=${settings.model} onChange=${(/** @type {any} */ event) => change({ model: event.currentTarget.value })}>
      ${(models.value ?? []).map((model) => html`<option value=${model.id}>${model.id}</option>`)}</select>`} />
    <${Area} name="instructions" label=${S.instructions} rows=${3} mistakes=${[]} />
    <div class="pair">${number("temperature", S.temperature)}${number("topP", S.topP)}</div>
    <div class="pair">${number("maxOutputTokens", S.maxOutputTokens)}
      <${Field} label=${S.effort} control=${(/** @type {any} */ props) => html`<select ...${props} value=${settings.effort} onChange=${(/** @type {any} */ event) => change({ effort: event.currentTarget.value })}>
        <option value="">${S.default}</option>${EFFORTS.map((effort) => html`<option value=${effort}>${effort}</option>`)}</select>`} /></div>
    <${Area} name="tools" label=${S.tools} rows=${settings.tools ? 10 : 2} code=${true} placeholder=${S.toolsHint} mistakes=${mistakes.filter((each) => each.field === "tools")} />
    ${!settings.tools && html`<button type="button" class="small quiet inset" onClick=${() => change({ tools: JSON.stringify(EXAMPLE, null, 2) })}>${S.toolExample}</button>`}
    <${Field} label=${S.format} control=${(/** @type {any} */ props) => html`<select ...${props} value=${settings.format} onChange=${(/** @type {any} */ event) => change({ format: event.currentTarget.value })}>
      ${Object.entries(S.formats).map(([value, label]) => html`<option value=${value}>${label}</option>`)}</select>`} />
    ${settings.format === "json_schema" && html`<${Area} name="schema" label=${S.schema} rows=${8} code=${true} mistakes=${mistakes.filter((each) => each.field === "schema")} />`}
    <${Switch} name="background" label=${S.background} />
    <${Switch} name="store" label=${S.store} />
  </aside>`;
}

/** A label, its control, and its mistakes. @param {{ label: string, control: (props: object) => any, mistakes?: Mistake[] }} props */
function Field({ label, control, mistakes = [] }) {
  const id = `field-${label.replace(/\W+/g, "-").toLowerCase()}`;
  const props = mistakes.length > 0 ? { id, "aria-invalid": "true", "aria-describedby": `${id}-mistakes` } : { id };
  return html`<div class="field"><label for=${id}>${label}</label>${control(props)}
    ${mistakes.length > 0 && html`<div role="alert" id=${`${id}-mistakes`}><ul class="mistakes">${mistakes.map((each) => html`<${MistakeLine} mistake=${each} fieldId=${id} />`)}</ul></div>`}
  </div>`;
}

/** A mistake, with a button that moves the cursor to its position. @param {{ mistake: Mistake, fieldId: string }} props */
function MistakeLine({ mistake, fieldId }) {
  const { line, column, message } = mistake;
  if (line === undefined || column === undefined) return html`<li>${message}</li>`;
  const show = () => {
    const field = /** @type {HTMLTextAreaElement} */ (document.getElementById(fieldId));
    const position = field.value.split("\n").slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0) + column - 1;
    field.focus();
    field.setSelectionRange(position, position + 1);
  };
  return html`<li><button type="button" class="small quiet" onClick=${show}>${S.place(line, column)}</button> ${message}</li>`;
}

/** @param {{ name: "instructions" | "tools" | "schema", label: string, rows: number, mistakes: Mistake[], code?: boolean, placeholder?: string }} props */
function Area({ name, label, rows, mistakes, code = false, placeholder = "" }) {
  return html`<${Field} label=${label} mistakes=${mistakes}
    control=${(/** @type {any} */ props) => html`<textarea ...${props} class=${code ? "mono" : ""} rows=${rows} spellcheck=${!code} placeholder=${placeholder}
      value=${conversation.settings.value[name]} onInput=${(/** @type {any} */ event) => change({ [name]: event.currentTarget.value })}></textarea>`} />`;
}

/** @param {{ name: "background" | "store", label: string }} props */
function Switch({ name, label }) {
  return html`<label class="switch"><input type="checkbox" role="switch" checked=${conversation.settings.value[name]} onChange=${(/** @type {any} */ event) => change({ [name]: event.currentTarget.checked })} /><span>${label}</span></label>`;
}
