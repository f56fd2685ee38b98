import assert from "node:assert/strict";
import { test } from "node:test";
import { failed, json, page, response, sent, serve, streamed, until } from "./tab.mjs";

const STATE = "../../../services/edge/antiphon_edge/console/web/app/state/";
const conversation = await import(`${STATE}conversation.js`);
const forest = await import(`${STATE}forest.js`);
const library = await import(`${STATE}library.js`);
const { route, settle } = await import(`${STATE}router.js`);

const posts = () => sent.filter((each) => each.startsWith("POST responses")).length;
const node = (id, parent_id = null, fields = {}) => ({ id, parent_id, status: "completed", depth: 0, child_count: 0, created_at: 1, ...fields });
const tree = (...nodes) => json({ data: nodes, next_cursor: null, has_more: false });

/** Serves a stored conversation of one turn, and opens it. */
async function opened(id) {
  serve("GET", new RegExp(`^responses/${id}/tree`), () => tree(node(id)));
  serve("GET", new RegExp(`^responses/${id}$`), () => json(response(id)));
  serve("GET", new RegExp(`^responses/${id}/input_items`), () => page([]));
  await conversation.show(id);
  settle({ view: "chat", id });
}

/** Sends a message, and returns the stream of its answer. */
function asked(text) {
  const stream = streamed();
  serve("POST", /^responses$/, () => stream.answer);
  conversation.draft.value = text;
  assert.ok(conversation.send());
  return stream;
}

test("an unstored answer stays in the conversation that it continues", async () => {
  await opened("resp_stored");
  conversation.settings.value = { ...conversation.settings.value, model: "m", store: false };
  const stream = asked("Hi");
  stream.send({ type: "response.created", sequence_number: 0, response: response("resp_unstored", { store: false, status: "in_progress" }) });
  await until(() => conversation.head.value === "resp_unstored");
  assert.deepEqual(route.value, { view: "chat", id: "resp_stored" });
  stream.send({ type: "response.completed", sequence_number: 1, response: response("resp_unstored", { store: false }) });
  stream.end();
  await until(() => conversation.stopper.value === null);
  conversation.settings.value = { ...conversation.settings.value, store: true };
});

test("one turn runs at a time, whichever button starts it", async () => {
  await opened("resp_busy");
  await library.load("resp_busy");
  const stream = asked("Hi");
  const running = conversation.stopper.value;
  const before = posts();
  conversation.sendOutputs([{ type: "function_call_output", call_id: "c", output: "1" }]);
  void conversation.retry("resp_busy");
  conversation.retryPending();
  await new Promise((resolve) => setTimeout(resolve, 20));
  assert.deepEqual([posts(), conversation.stopper.value], [before, running]);
  stream.end();
  await until(() => conversation.stopper.value === null);
});

test("the error of a tree is gone with the next conversation", async () => {
  serve("GET", /^responses\/resp_lost\/tree/, () => failed(404, "response_not_found"));
  await conversation.show("resp_lost");
  assert.equal(forest.problem.value.status, 404);
  conversation.begin();
  assert.equal(forest.problem.value, null);
});

test("the conversation that was opened last is shown, whichever loads first", async () => {
  let slow;
  serve("GET", /^responses\/resp_slow\/tree/, () => new Promise((resolve) => (slow = resolve)));
  const first = conversation.show("resp_slow");
  await until(() => slow);
  await opened("resp_quick");
  slow(tree(node("resp_slow")));
  await first;
  assert.equal(conversation.head.value, "resp_quick");
  assert.ok(forest.tree.value.nodes.has("resp_quick"));
});

test("of two branches of a tree the one that was opened last is shown, whichever loads first", async () => {
  let slow;
  const both = [node("resp_stem"), node("resp_left_leaf", "resp_stem"), node("resp_right_leaf", "resp_stem")];
  serve("GET", /^responses\/resp_left_leaf\/tree/, () => new Promise((resolve) => (slow = resolve)));
  serve("GET", /^responses\/resp_right_leaf\/tree/, () => tree(...both));
  const first = conversation.show("resp_left_leaf");
  await until(() => slow);
  await conversation.show("resp_right_leaf");
  slow(tree(...both));
  await first;
  assert.equal(conversation.head.value, "resp_right_leaf");
});

test("the address names the branch that is shown", async () => {
  await conversation.show("resp_right_leaf");
  settle({ view: "chat", id: "resp_right_leaf" });
  await conversation.show("resp_left_leaf");
  assert.deepEqual(route.value, { view: "chat", id: "resp_left_leaf" });
});

test("a mistake that the API reported is gone with the settings that it was about", async () => {
  await opened("resp_rerun");
  conversation.rejected.value = { field: "tools", message: "wrong" };
  await conversation.runAgain("resp_rerun");
  assert.equal(conversation.rejected.value, null);
});

test("a failed or stopped message returns to the form with its attachments", async () => {
  conversation.begin();
  const attachment = { name: "image", kind: "image", url: "data:image/png;base64,AA" };
  conversation.attachments.value = [attachment];
  conversation.draft.value = "Look";
  serve("POST", /^responses$/, () => failed(400, "invalid_value"));
  conversation.send();
  await until(() => conversation.pending.value?.error);
  assert.deepEqual([conversation.draft.value, conversation.attachments.value], ["Look", [attachment]]);
});

test("a response of a session is run again as its sibling", async () => {
  serve("GET", /^responses\/resp_second\/tree/, () => tree(node("resp_first", null, { child_count: 1 }), node("resp_second", "resp_first")));
  serve("GET", /^responses\/resp_second$/, () => json(response("resp_second")));
  serve("GET", /^responses\/resp_second\/input_items/, () => page([{ type: "message", role: "user", content: [{ type: "input_text", text: "Hi" }] }]));
  await conversation.runAgain("resp_second");
  assert.equal(conversation.request.value.body.previous_response_id, "resp_first");
});

test("a turn whose connection is lost gets the status that the server stored", async () => {
  await opened("resp_before");
  const stream = asked("Hi");
  stream.send({ type: "response.created", sequence_number: 0, response: response("resp_cut", { status: "in_progress", previous_response_id: "resp_before" }) });
  await until(() => conversation.head.value === "resp_cut");
  serve("GET", /^responses\/resp_cut$/, () => json(response("resp_cut", { status: "cancelled", previous_response_id: "resp_before" })));
  stream.fail();
  await until(() => conversation.stopper.value === null);
  assert.equal(forest.tree.value.nodes.get("resp_cut").status, "cancelled");
  assert.equal(library.peek("resp_cut").error.message, "network error");
});

test("a turn that the server completed though its connection was lost shows no error", async () => {
  await opened("resp_earlier");
  const stream = asked("Hi");
  stream.send({ type: "response.created", sequence_number: 0, response: response("resp_whole", { status: "in_progress", previous_response_id: "resp_earlier" }) });
  await until(() => conversation.head.value === "resp_whole");
  serve("GET", /^responses\/resp_whole$/, () => json(response("resp_whole", { previous_response_id: "resp_earlier" })));
  stream.fail();
  await until(() => conversation.stopper.value === null);
  assert.deepEqual([library.peek("resp_whole").response.status, library.peek("resp_whole").error], ["completed", null]);
});

test("a turn that begins after the user has left its conversation does not change the one on the screen", async () => {
  await opened("resp_left");
  const stream = asked("Hi");
  await opened("resp_next");
  stream.send({ type: "response.created", sequence_number: 0, response: response("resp_late", { status: "in_progress", previous_response_id: "resp_left" }) });
  stream.send({ type: "response.completed", sequence_number: 1, response: response("resp_late", { previous_response_id: "resp_left" }) });
  stream.end();
  await until(() => conversation.stopper.value === null);
  assert.deepEqual([conversation.head.value, [...forest.tree.value.nodes.keys()]], ["resp_next", ["resp_next"]]);
  assert.equal(library.peek("resp_late").response.status, "completed");
  assert.deepEqual(JSON.parse(sessionStorage.getItem("antiphon.recent"))[0], { root: "resp_next", head: "resp_next" });
});

test("an unstored answer is not the end of a recent conversation", async () => {
  await opened("resp_recent");
  conversation.settings.value = { ...conversation.settings.value, store: false };
  const stream = asked("Hi");
  stream.send({ type: "response.created", sequence_number: 0, response: response("resp_gone", { store: false, status: "in_progress" }) });
  stream.send({ type: "response.completed", sequence_number: 1, response: response("resp_gone", { store: false }) });
  stream.end();
  await until(() => conversation.stopper.value === null);
  conversation.settings.value = { ...conversation.settings.value, store: true };
  assert.deepEqual(JSON.parse(sessionStorage.getItem("antiphon.recent"))[0], { root: "resp_recent", head: "resp_recent" });
});

test("a turn that the user has left for another branch is added to its tree", async () => {
  await opened("resp_trunk");
  const stream = asked("Hi");
  await conversation.show("resp_trunk");
  stream.send({ type: "response.created", sequence_number: 0, response: response("resp_twig", { status: "in_progress", previous_response_id: "resp_trunk" }) });
  stream.send({ type: "response.completed", sequence_number: 1, response: response("resp_twig", { previous_response_id: "resp_trunk" }) });
  stream.end();
  await until(() => conversation.stopper.value === null);
  assert.deepEqual([conversation.head.value, forest.tree.value.childrenOf("resp_trunk")], ["resp_trunk", ["resp_twig"]]);
});
