import assert from "node:assert/strict";
import { test } from "node:test";
import { PagedNodes } from "../../../services/edge/antiphon_edge/console/web/app/core/pages.js";

function listed(pages) {
  const asked = [];
  const list = new PagedNodes(async (cursor) => {
    asked.push(cursor);
    const at = cursor === null ? 0 : Number(cursor);
    return { data: pages[at].map((id) => ({ id })), next_cursor: at + 1 < pages.length ? String(at + 1) : null };
  });
  return { list, asked };
}

test("pages are loaded by cursor, and only as far as needed", async () => {
  const { list, asked } = listed([["a"], ["b", "c"], ["d"]]);
  const seen = [];
  assert.equal(await list.until("c", (nodes) => seen.push(...nodes.map((node) => node.id))), true);
  assert.deepEqual([seen, asked, list.isDone], [["a", "b", "c"], [null, "1"], false]);
  await list.next();
  assert.deepEqual([list.isDone, await list.next()], [true, []]);
});

test("concurrent calls share one page request", async () => {
  const { list, asked } = listed([["a"], ["b"]]);
  const [one, other] = await Promise.all([list.next(), list.next()]);
  assert.deepEqual([one, asked], [other, [null]]);
});

test("a failed page is requested again", async () => {
  let tries = 0;
  const list = new PagedNodes(async () => {
    tries += 1;
    if (tries === 1) throw new Error("away");
    return { data: [], next_cursor: null };
  });
  await assert.rejects(list.next());
  assert.deepEqual(await list.next(), []);
});

test("the search for an unknown id ends with the last page", async () => {
  assert.equal(await listed([["a"], ["b"]]).list.until("z", () => undefined), false);
});
