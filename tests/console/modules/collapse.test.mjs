import assert from "node:assert/strict";
import { test } from "node:test";
import { collapse, spots } from "../../../services/edge/antiphon_edge/console/web/app/core/collapse.js";
import { chain, numbers, treeOf } from "./trees.mjs";

const shape = (root) => [...spots(root)].map((spot) => (spot.ids.length > 1 ? spot.ids.length : spot.id));

test("a long run of single children is one spot between its ends", () => {
  assert.deepEqual(shape(collapse(chain(10))), ["n0", 8, "n9"]);
});

test("a short run is drawn in full", () => {
  assert.deepEqual(shape(collapse(chain(5))), ["n0", "n1", "n2", "n3", "n4"]);
});

test("an unfolded run is drawn in full", () => {
  const tree = chain(10);
  const run = collapse(tree).children[0];
  assert.equal(shape(collapse(tree, { expanded: new Set(run.ids) })).length, 10);
});

test("a node that is kept is drawn within its run", () => {
  assert.ok(shape(collapse(chain(40), { kept: new Set(["n20"]) })).includes("n20"));
});

test("every node of a random tree is in exactly one spot", () => {
  for (let seed = 1; seed <= 60; seed += 1) {
    const next = numbers(seed);
    const parents = Array.from({ length: 200 }, (_, index) => (index === 0 ? null : Math.max(0, index - 1 - (next(10) === 0 ? next(index) : 0))));
    const ids = [...spots(collapse(treeOf(parents)))].flatMap((spot) => spot.ids);
    assert.equal(ids.length, 200);
    assert.equal(new Set(ids).size, 200);
  }
});

test("a chain of 5,000 turns is three spots, and is unfolded without recursion", () => {
  const tree = chain(5000);
  const folded = collapse(tree);
  assert.equal(shape(folded).length, 3);
  assert.equal(shape(collapse(tree, { expanded: new Set(folded.children[0].ids) })).length, 5000);
});

test("children that are not loaded yet end a run", () => {
  const tree = chain(10);
  const node = tree.nodes.get("n5");
  tree.nodes.set("n5", { ...node, child_count: 2 });
  const found = [...spots(collapse(tree))].find((spot) => spot.ids.at(-1) === "n5");
  assert.equal(found.missing, 1);
});
