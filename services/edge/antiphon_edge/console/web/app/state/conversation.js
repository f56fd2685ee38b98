/**
 * The state of the playground: the branch that is shown, the response that the next message continues, the draft, and the
 * running turn.
 * @import { Attachment, Fields, Item, Mistake, Response, Settings } from "../../types"
 */
import { batch, computed, signal } from "@preact/signals";
import { UNFINISHED } from "../core/fold.js";
import { eventsOf } from "../core/sse.js";
import { bodyOf, DEFAULTS, inputOf, settingsOf } from "../core/request.js";
import { textOf } from "../core/texts.js";
import { newTrace } from "../core/trace.js";
import * as forest from "./forest.js";
import * as library from "./library.js";
import { remember } from "./recent.js";
import { route, settle } from "./router.js";
import { followRun } from "./runs.js";
import { api, models } from "./session.js";

/** The response at the end of the branch that is shown. */
export const head = signal(/** @type {string | null} */ (null));
/** The response that the next message continues; null for the head, "" for a new conversation. */
export const forkPoint = signal(/** @type {string | null} */ (null));
/** The response that the next message runs again, as a sibling. */
export const rerunOf = signal(/** @type {string | null} */ (null));
export const settings = signal(/** @type {Settings} */ ({ ...DEFAULTS }));
export const draft = signal("");
export const attachments = signal(/** @type {Attachment[]} */ ([]));
/** The turn on the screen that has no id yet; with an error if it failed before it got one. */
export const pending = signal(/** @type {{ body: Fields, input: Item[], error: unknown } | null} */ (null));
/** Cancels the turn that runs in the foreground. */
export const stopper = signal(/** @type {AbortController | null} */ (null));

export const continued = computed(() => (forkPoint.value === null ? storedHead() : forkPoint.value || null));
export const path = computed(() => (void forest.changes.value, forest.tree.value.pathTo(head.value)));
/** The request body for the present settings and draft, and the mistakes in them. */
export const request = computed(() => bodyOf(effectiveSettings(), inputOf(draft.value, attachments.value), continued.value));
/** A mistake that the API reported, shown at the field that its `param` names. */
export const rejected = signal(/** @type {Mistake | null} */ (null));
/** The response that the user opened last. @type {string | null} */
let wanted = null;

/** @returns {Settings} */
export function effectiveSettings() {
  const model = settings.value.model || models.value?.[0]?.id || "";
  return { ...settings.value, model };
}

/** The head, or the nearest response above it that the store has. */
function storedHead() {
  const id = head.value;
  return id !== null && library.read(id).response?.store === false ? (library.read(id).response?.previous_response_id ?? null) : id;
}

/** Shows a branch up to a response, unless the user opens another one while its tree is loaded. @param {string} id */
export async function show(id) {
  wanted = id;
  await forest.openTreeOf(id);
  if (wanted !== id || !forest.tree.peek().nodes.has(id)) return;
  batch(() => {
    head.value = id;
    forkPoint.value = null;
    rerunOf.value = null;
    pending.value = null;
  });
  nameShown(id);
}

/** Begins a new conversation. */
export function begin() {
  wanted = null;
  batch(() => {
    forest.close();
    head.value = null;
    forkPoint.value = null;
    rerunOf.value = null;
    pending.value = null;
  });
}

/** Makes the next message continue this response, even if other responses continue it already. @param {string} id */
export async function fork(id) {
  await show(id);
}

/** Fills settings and draft from the request of a response, to run it again as a sibling. @param {string} id */
export async function runAgain(id) {
  await library.load(id);
  const { response, input } = library.peek(id);
  if (!response) return;
  await show(id);
  const message = (input ?? []).findLast((item) => item.type === "message");
  batch(() => {
    settings.value = settingsOf(response);
    rejected.value = null;
    forkPoint.value = parentOf(response) ?? "";
    rerunOf.value = id;
    fillForm(message);
  });
}

/** The response that another one continues. In a session only the tree knows it: the request did not name it.
 * @param {Response} response @returns {string | null} */
const parentOf = ({ id, previous_response_id }) => forest.tree.peek().nodes.get(id)?.parent_id ?? previous_response_id ?? null;

/** Puts the text and the files of a message into the form. @param {Item | undefined} message */
function fillForm(message) {
  draft.value = message ? textOf(message) : "";
  attachments.value = filesOf(message);
}

/** @param {Item | undefined} message @returns {Attachment[]} */
const filesOf = (message) =>
  (Array.isArray(message?.content) ? message.content : [])
    .filter((/** @type {Fields} */ part) => part.image_url || part.file_data)
    .map((/** @type {Fields} */ part) => ({
      name: part.filename ?? "image",
      kind: part.image_url ? "image" : "file",
      url: part.image_url ?? part.file_data,
    }));

/** Sends the draft. Returns false if the settings have mistakes or a turn runs. */
export function send() {
  const { body, mistakes } = request.peek();
  if (mistakes.length > 0 || stopper.peek()) return false;
  batch(() => {
    draft.value = "";
    attachments.value = [];
  });
  void run(body);
  return true;
}

/** Sends the outputs of tools. @param {Item[]} outputs */
export function sendOutputs(outputs) {
  void run({ ...bodyOf(effectiveSettings(), outputs, continued.peek()).body });
}

/** Sends the request of a response once more: the answer becomes its sibling. @param {string} id */
export async function retry(id) {
  const { sent, input, response } = library.peek(id);
  if (sent) return run(sent);
  if (response && input) return run(bodyOf(settingsOf(response), input, parentOf(response)).body);
}

/** Sends the pending request again. */
export function retryPending() {
  const body = pending.peek()?.body;
  if (body) void run(body);
}

/** Runs a turn, unless one runs already: its stream is the one that Stop ends. @param {Fields} body */
async function run(body) {
  if (stopper.peek()) return;
  const controller = new AbortController();
  const input = asItems(body.input);
  const parent = body.previous_response_id ?? null;
  batch(() => {
    stopper.value = controller;
    pending.value = { body, input, error: null };
    rejected.value = null;
    rerunOf.value = null;
    forkPoint.value = null;
    if (parent !== null && forest.tree.peek().nodes.has(parent)) head.value = parent;
    else if (parent === null) begin();
    pending.value = { body, input, error: null };
  });
  if (parent === null && route.peek().view === "chat") settle({ view: "chat", id: null });
  try {
    await (body.background ? runInBackground(body, input, controller) : runHere(body, input, controller));
  } catch (error) {
    giveUp(body, input, error, controller);
  } finally {
    if (stopper.peek() === controller) stopper.value = null;
  }
}

/** @param {Fields} body @param {Item[]} input @param {AbortController} controller */
async function runHere(body, input, controller) {
  const trace = newTrace();
  const startedAt = performance.now();
  let id = "";
  try {
    const answer = await api.ask("responses", {
      method: "POST",
      body: { ...body, stream: true },
      signal: controller.signal,
      headers: { traceparent: trace.header },
    });
    const facts = { sent: body, input, startedAt, traceId: trace.id, requestId: answer.headers.get("x-request-id") };
    if (!answer.body) return;
    for await (const event of eventsOf(answer.body)) {
      if (event.type === "response.created") {
        id = event.response.id;
        library.note(id, facts);
        library.take(id, event);
        accept(id, body);
      } else if (id) library.take(id, event);
    }
  } catch (error) {
    if (!id) throw error;
    if (!controller.signal.aborted) library.note(id, { error });
  }
  if (id) await finish(id, controller.signal.aborted);
}

/** @param {Fields} body @param {Item[]} input @param {AbortController} controller */
async function runInBackground(body, input, controller) {
  const trace = newTrace();
  const startedAt = performance.now();
  const headers = { traceparent: trace.header };
  const answer = await api.ask("responses", { method: "POST", body, signal: controller.signal, headers });
  const response = await answer.json();
  const requestId = answer.headers.get("x-request-id");
  library.note(response.id, { response, sent: body, input, startedAt, traceId: trace.id, requestId });
  accept(response.id, body);
  stopper.value = null;
  void followRun(response.id);
}

/** Adds a response to the tree, and shows it, unless the user has left the turn for something else.
 * @param {string} id @param {Fields} body */
function accept(id, body) {
  const { response } = library.peek(id);
  const parent = body.previous_response_id ?? null;
  const isShown = pending.peek()?.body === body;
  batch(() => {
    if (isShown || forest.tree.peek().nodes.has(parent)) forest.grow(id, parent, response?.status ?? "in_progress", response?.created_at ?? 0);
    if (!isShown) return;
    head.value = id;
    pending.value = null;
  });
  if (isShown) nameShown(response?.store === false ? parent : id);
}

/** Names the shown branch in the address and among the recent conversations, by its last stored response.
 * @param {string | null} id */
function nameShown(id) {
  if (id !== null) remember(forest.tree.peek().root?.id ?? id, id);
  if (route.peek().view === "chat") settle({ view: "chat", id });
}

/** Updates the tree with the status of a response that has ended. If its stream broke off, because the user stopped it or the
 * connection was lost, its end is read from the server. @param {string} id @param {boolean} stopped */
async function finish(id, stopped) {
  const { response } = library.peek(id);
  if (response && UNFINISHED.has(response.status)) await readEnd(id, stopped ? "cancelled" : "failed");
  const status = library.peek(id).response?.status ?? "failed";
  const node = forest.tree.peek().nodes.get(id);
  if (node) forest.grow(id, node.parent_id, status, node.created_at);
}

/** Waits until a response is stored that broke off, a moment after the client disconnected.
 * @param {string} id @param {string} unstoredStatus The status to show if it is not stored. */
async function readEnd(id, unstoredStatus) {
  for (const pause of [100, 200, 400, 800, 1600]) {
    await new Promise((resolve) => setTimeout(resolve, pause));
    try {
      const response = await api.response(id);
      if (UNFINISHED.has(response.status)) continue;
      library.note(id, response.status === "completed" ? { response, error: null } : { response });
      return;
    } catch {
      // not stored yet, or never: then the output so far stays on the screen
    }
  }
  const { response } = library.peek(id);
  if (response) library.note(id, { response: { ...response, status: unstoredStatus } });
}

/** @param {Fields} body @param {Item[]} input @param {unknown} error @param {AbortController} controller */
function giveUp(body, input, error, controller) {
  const message = input.findLast((item) => item.type === "message");
  if (message && draft.peek() === "" && attachments.peek().length === 0) fillForm(message); // to be sent again with a change
  if (pending.peek()?.body !== body) return;
  pending.value = controller.signal.aborted ? null : { body, input, error };
  if (controller.signal.aborted) return;
  rejected.value = mistakeOf(error);
}

/** The field that an error of the API is about. @param {unknown} error @returns {Mistake | null} */
function mistakeOf(error) {
  const { param, message } = /** @type {{ param?: string | null, message: string }} */ (error);
  if (param?.startsWith("tools")) return { field: "tools", message };
  if (param?.startsWith("text")) return { field: "schema", message };
  return null;
}

/** @param {string | Item[]} input @returns {Item[]} */
function asItems(input) {
  if (typeof input !== "string") return input;
  return [{ type: "message", role: "user", content: [{ type: "input_text", text: input }] }];
}
