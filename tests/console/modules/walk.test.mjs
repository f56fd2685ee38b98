import assert from "node:assert/strict";
import { test } from "node:test";
import { collapse } from "../../../services/edge/antiphon_edge/console/web/app/core/collapse.js";
import { Layout } from "../../../services/edge/antiphon_edge/console/web/app/core/layout.js";
import { step } from "../../../services/edge/antiphon_edge/console/web/app/core/walk.js";
import { treeOf } from "./trees.mjs";

const layout = new Layout(collapse(treeOf([null, 0, 0, 1, 2])));
const neighbour = (spot, by) => layout.levels[spot.level][layout.levels[spot.level].findIndex((each) => each.spot === spot) + by]?.spot;
const from = (id, key) => step(layout.byId.get(id).spot, key, neighbour)?.id;

test("arrow keys lead to children, parents and neighbours, also across branches", () => {
  assert.equal(from("n0", "ArrowDown"), "n1");
  assert.equal(from("n1", "ArrowRight"), "n2");
  assert.equal(from("n3", "ArrowRight"), "n4");
  assert.equal(from("n4", "ArrowUp"), "n2");
  assert.equal(from("n4", "Home"), "n0");
  assert.equal(from("n0", "End"), "n4");
});

test("arrow keys at the edge and other keys lead nowhere", () => {
  assert.deepEqual([from("n0", "ArrowUp"), from("n4", "ArrowDown"), from("n1", "ArrowLeft"), from("n1", "x")], [undefined, undefined, undefined, undefined]);
});
