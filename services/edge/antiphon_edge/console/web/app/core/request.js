/**
 * Builds request bodies from the settings and input of the playground.
 * @import { Attachment, Fields, Item, Mistake, Response, Settings } from "../../types"
 */
import { parseJson } from "./json-text.js";
import { schemaProblems, toolProblems } from "./schema.js";

/** @type {Readonly<Settings>} */
export const DEFAULTS = Object.freeze({
  model: "",
  instructions: "",
  temperature: "",
  topP: "",
  maxOutputTokens: "",
  effort: "",
  tools: "",
  format: "text",
  schema: "",
  background: false,
  store: true,
});

/** The request body for the settings, and the mistakes in them.
 * @param {Settings} settings
 * @param {string | Item[]} input
 * @param {string | null} previousId
 * @returns {{ body: Fields, mistakes: Mistake[] }} */
export function bodyOf(settings, input, previousId) {
  const mistakes = /** @type {Mistake[]} */ ([]);
  const body = /** @type {Fields} */ ({ model: settings.model, input });
  if (previousId) body.previous_response_id = previousId;
  if (settings.instructions.trim()) body.instructions = settings.instructions;
  putNumber(body, "temperature", settings.temperature, "temperature", mistakes);
  putNumber(body, "top_p", settings.topP, "topP", mistakes);
  putNumber(body, "max_output_tokens", settings.maxOutputTokens, "maxOutputTokens", mistakes);
  if (settings.effort) body.reasoning = { effort: settings.effort };
  putTools(body, settings, mistakes);
  putFormat(body, settings, mistakes);
  if (settings.background) body.background = true;
  if (!settings.store) body.store = false;
  return { body, mistakes };
}

/** @param {Fields} body @param {string} name @param {string} text @param {keyof Settings} field @param {Mistake[]} mistakes */
function putNumber(body, name, text, field, mistakes) {
  if (text.trim() === "") return;
  const number = Number(text);
  if (Number.isFinite(number)) body[name] = number;
  else mistakes.push({ field, message: `"${text}" is no number.` });
}

/** @param {Fields} body @param {Settings} settings @param {Mistake[]} mistakes */
function putTools(body, settings, mistakes) {
  if (settings.tools.trim() === "") return;
  const { value, mistake } = parseJson(settings.tools, "tools");
  if (mistake) mistakes.push(mistake);
  else mistakes.push(...toolProblems(value).map((message) => ({ field: /** @type {const} */ ("tools"), message })));
  if (Array.isArray(value) && value.length > 0) body.tools = value;
}

/** @param {Fields} body @param {Settings} settings @param {Mistake[]} mistakes */
function putFormat(body, settings, mistakes) {
  if (settings.format === "json_object") body.text = { format: { type: "json_object" } };
  if (settings.format !== "json_schema") return;
  const { value, mistake } = parseJson(settings.schema.trim() || "{}", "schema");
  if (mistake) mistakes.push(mistake);
  else mistakes.push(...schemaProblems(value, "schema").map((message) => ({ field: /** @type {const} */ ("schema"), message })));
  body.text = { format: { type: "json_schema", name: "answer", schema: value, strict: true } };
}

/** The input for a text and its attachments: a plain string if there are no attachments.
 * @param {string} text
 * @param {readonly Attachment[]} attachments
 * @returns {string | Item[]} */
export function inputOf(text, attachments) {
  if (attachments.length === 0) return text;
  const parts = attachments.map((each) =>
    each.kind === "image"
      ? { type: "input_image", image_url: each.url, detail: "auto" }
      : { type: "input_file", filename: each.name, file_data: each.url },
  );
  const said = text.trim() ? [{ type: "input_text", text }] : [];
  return [{ type: "message", role: "user", content: [...said, ...parts] }];
}

/** The settings that a response was made with, for running it again.
 * @param {Response} response @returns {Settings} */
export function settingsOf(response) {
  const format = response.text?.format ?? { type: "text" };
  return {
    ...DEFAULTS,
    model: response.model,
    instructions: typeof response.instructions === "string" ? response.instructions : "",
    temperature: numeral(response.temperature),
    topP: numeral(response.top_p),
    maxOutputTokens: numeral(response.max_output_tokens),
    effort: response.reasoning?.effort ?? "",
    tools: response.tools?.length ? JSON.stringify(response.tools, null, 2) : "",
    format: format.type,
    schema: format.schema ? JSON.stringify(format.schema, null, 2) : "",
    background: response.background === true,
    store: response.store !== false,
  };
}

/** @param {unknown} value */
const numeral = (value) => (typeof value === "number" ? String(value) : "");

/** The function and custom tool calls of a response. For its last turn they have no outputs yet.
 * @param {Response} response @returns {Item[]} */
export function openCalls(response) {
  return response.output.filter((item) => item.type === "function_call" || item.type === "custom_tool_call");
}

/** The output items for calls. @param {readonly Item[]} calls @param {Record<string, string>} outputs @returns {Item[]} */
export function outputsOf(calls, outputs) {
  return calls.map((call) => ({
    type: call.type === "custom_tool_call" ? "custom_tool_call_output" : "function_call_output",
    call_id: call.call_id,
    output: outputs[call.call_id] ?? "",
  }));
}
