import assert from "node:assert/strict";
import { test } from "node:test";
import { collapse, spots } from "../../../services/edge/antiphon_edge/console/web/app/core/collapse.js";
import { CARD, GAP, Layout } from "../../../services/edge/antiphon_edge/console/web/app/core/layout.js";
import { edge } from "../../../services/edge/antiphon_edge/console/web/app/core/shapes.js";
import { chain, numbers, treeOf } from "./trees.mjs";

const STEP = CARD.width + GAP.x;
const placed = (parents) => new Layout(collapse(treeOf(parents), { runMin: Infinity }));

function randomParents(seed, count) {
  const next = numbers(seed);
  return Array.from({ length: count }, (_, index) => (index === 0 ? null : next(2) === 0 ? index - 1 : next(index)));
}

test("nodes of a level do not overlap, and parents are centred over their children", () => {
  for (let seed = 1; seed <= 100; seed += 1) {
    const layout = placed(randomParents(seed, 150));
    for (const level of layout.levels) {
      for (let index = 1; index < level.length; index += 1) {
        assert.ok(level[index].x - level[index - 1].x > STEP - 1e-6, `seed ${seed}`);
      }
    }
    for (const { spot, x } of layout.levels.flat()) {
      if (spot.children.length === 0) continue;
      const [first, last] = [spot.children[0], spot.children.at(-1)].map((child) => layout.byId.get(child.id).x);
      assert.ok(Math.abs(x - (first + last) / 2) < 1e-6, `seed ${seed}`);
    }
  }
});

test("children keep their order, and no node is left of the edge", () => {
  for (let seed = 1; seed <= 50; seed += 1) {
    const layout = placed(randomParents(seed, 80));
    for (const { spot, x } of layout.levels.flat()) {
      assert.ok(x >= -1e-6);
      const xs = spot.children.map((child) => layout.byId.get(child.id).x);
      assert.deepEqual(xs, xs.toSorted((one, other) => one - other));
    }
  }
});

test("subtrees are placed as closely as possible", () => {
  // A deep left branch beside a shallow right one: the shallow branch is not pushed aside by the width of the deep one.
  const layout = placed([null, 0, 0, 1, 3, 3, 3]);
  assert.equal(layout.byId.get("n2").x - layout.byId.get("n1").x, STEP);
});

test("exactly the nodes that touch an area are within it", () => {
  const layout = placed(randomParents(7, 400));
  const all = layout.levels.flat();
  const next = numbers(3);
  for (let round = 0; round < 50; round += 1) {
    const [left, top] = [next(layout.width), next(layout.height)];
    const area = { left, top, right: left + 900, bottom: top + 600 };
    const expected = all.filter(({ x, y }) => x >= area.left - CARD.width && x <= area.right && y + CARD.height >= area.top && y <= area.bottom);
    assert.deepEqual(new Set(layout.within(area).map(({ spot }) => spot.id)), new Set(expected.map(({ spot }) => spot.id)));
  }
});

test("a chain of 5,000 unfolded turns is laid out straight", () => {
  const layout = new Layout(collapse(chain(5000), { runMin: Infinity }));
  assert.equal(layout.levels.length, 5000);
  assert.ok(layout.levels.every(([only]) => only.x === 0));
});

test("a folded run is found by each of its nodes", () => {
  const layout = new Layout(collapse(chain(50)));
  assert.equal(layout.byId.get("n10"), layout.byId.get("n20"));
});

test("a layout without a tree is empty", () => {
  assert.deepEqual(new Layout(null).levels, []);
  assert.deepEqual([...spots(null)], []);
});

test("edges end at the border of cards and of folded runs", () => {
  const layout = new Layout(collapse(chain(50)));
  const [card, run] = layout.levels.slice(0, 2).map(([only]) => only);
  assert.equal(edge(card, run), `M104 ${CARD.height}V${CARD.height + GAP.y + 14}`);
  assert.match(edge(layout.levels[1][0], layout.levels[2][0]), new RegExp(`^M104 ${2 * CARD.height + GAP.y - 14}V`));
});
