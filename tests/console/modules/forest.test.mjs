import assert from "node:assert/strict";
import { test } from "node:test";
import { failed, json, serve } from "./tab.mjs";

const forest = await import("../../../services/edge/antiphon_edge/console/web/app/state/forest.js");

const node = (id, parent_id = null, fields = {}) => ({ id, parent_id, status: "completed", depth: 0, child_count: 0, created_at: 1, ...fields });
const tree = (nodes, next_cursor = null) => json({ data: nodes, next_cursor, has_more: next_cursor !== null });
const statuses = () => [...forest.tree.value.nodes.values()].map(({ id, status }) => [id, status]);

test("the error of a page is gone once the page is loaded", async () => {
  serve("GET", /^responses\/resp_paged\/tree/, () => tree([node("resp_paged")], "2"));
  await forest.openTreeOf("resp_paged");
  serve("GET", /^responses\/resp_paged\/tree.*cursor=2/, () => failed(503, "unavailable"));
  await forest.loadMore();
  assert.equal(forest.problem.value.status, 503);
  serve("GET", /^responses\/resp_paged\/tree.*cursor=2/, () => tree([node("resp_last", "resp_paged")]));
  await forest.loadMore();
  assert.deepEqual([forest.problem.value, forest.isWhole.value], [null, true]);
});

test("the error of a page does not show in a tree that was opened meanwhile", async () => {
  let answer;
  serve("GET", /^responses\/resp_first\/tree/, () => tree([node("resp_first")], "2"));
  serve("GET", /^responses\/resp_first\/tree.*cursor=2/, () => new Promise((resolve) => (answer = resolve)));
  serve("GET", /^responses\/resp_other\/tree/, () => tree([node("resp_other")]));
  await forest.openTreeOf("resp_first");
  const loading = forest.loadMore();
  await forest.openTreeOf("resp_other");
  answer(failed(503, "unavailable"));
  await loading;
  assert.equal(forest.problem.value, null);
});

test("a refresh shows the turns and deletions of other clients, and undoes nothing that this tab knows", async () => {
  const ran = node("resp_ran", "resp_root", { status: "in_progress" });
  serve("GET", /^responses\/resp_root\/tree/, () => tree([node("resp_root"), ran, node("resp_gone", "resp_root"), node("resp_mine", "resp_root")]));
  await forest.openTreeOf("resp_root");
  forest.grow("resp_ran", "resp_root", "completed", 1);
  forest.markDeleted("resp_mine");
  serve("GET", /^responses\/resp_root\/tree/, () =>
    tree([node("resp_root"), ran, node("resp_gone", "resp_root", { status: null }), node("resp_mine", "resp_root"), node("resp_new", "resp_root")]),
  );
  await forest.refresh();
  assert.deepEqual(statuses(), [["resp_root", "completed"], ["resp_ran", "completed"], ["resp_gone", null], ["resp_mine", null], ["resp_new", "completed"]]);
});

test("a refresh finds the tree of a conversation whose first response is deleted", async () => {
  const [first, second] = [node("resp_begin", null, { status: null }), node("resp_second", "resp_begin")];
  serve("GET", /^responses\/resp_second\/tree/, () => tree([first, second]));
  await forest.openTreeOf("resp_second");
  serve("GET", /^responses\/resp_second\/tree/, () => tree([first, second, node("resp_third", "resp_second")]));
  await forest.refresh();
  assert.ok(forest.tree.value.nodes.has("resp_third"));
  serve("GET", /^responses\/resp_third\/tree/, () => tree([first, { ...second, status: null }, node("resp_third", "resp_second")]));
  serve("GET", /^responses\/resp_second\/tree/, () => failed(404, "not_found"));
  await forest.refresh();
  assert.deepEqual(statuses(), [["resp_begin", null], ["resp_second", null], ["resp_third", "completed"]]);
});
