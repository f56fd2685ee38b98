import assert from "node:assert/strict";
import { test } from "node:test";
import { Tree } from "../../../services/edge/antiphon_edge/console/web/app/core/tree.js";
import { chain, treeOf } from "./trees.mjs";

test("pages may be added in any order and repeatedly", () => {
  const nodes = [...treeOf([null, 0, 0, 1, 1, 4]).nodes.values()];
  const tree = new Tree();
  tree.add(nodes.slice(3));
  tree.add(nodes);
  assert.equal(tree.root.id, "n0");
  assert.deepEqual(tree.childrenOf("n0"), ["n1", "n2"]);
  assert.deepEqual(tree.pathTo("n5"), ["n0", "n1", "n4", "n5"]);
  assert.deepEqual(tree.siblingsOf("n3"), ["n3", "n4"]);
  assert.equal(tree.newestLeaf("n0"), "n2");
});

test("children that are not loaded are counted as missing", () => {
  const nodes = [...treeOf([null, 0, 0, 0]).nodes.values()];
  const tree = new Tree();
  tree.add(nodes.slice(0, 2));
  assert.equal(tree.missingBelow("n0"), 2);
  tree.add(nodes.slice(2));
  assert.equal(tree.missingBelow("n0"), 0);
});

test("a new response is added as a child and changes its status in place", () => {
  const tree = chain(2);
  tree.grow("new", "n1", "in_progress", 5);
  tree.grow("new", "n1", "completed", 5);
  assert.deepEqual(tree.childrenOf("n1"), ["new"]);
  assert.deepEqual([tree.nodes.get("new").depth, tree.nodes.get("n1").child_count, tree.missingBelow("n1")], [2, 1, 0]);
  assert.equal(tree.nodes.get("new").status, "completed");
});
