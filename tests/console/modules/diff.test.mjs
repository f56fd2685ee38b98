import assert from "node:assert/strict";
import { test } from "node:test";
import { diff } from "../../../services/edge/antiphon_edge/console/web/app/core/diff.js";
import { numbers } from "./trees.mjs";

const without = (pieces, kind) => pieces.filter((piece) => piece.kind !== kind).map((piece) => piece.text).join("");

test("a diff contains both texts completely", () => {
  const next = numbers(11);
  const words = ["a", "b", "c", " ", ".", "\n"];
  const random = () => Array.from({ length: next(30) }, () => words[next(words.length)]).join("");
  for (let round = 0; round < 400; round += 1) {
    const [before, after] = [random(), random()];
    const pieces = diff(before, after);
    assert.deepEqual([without(pieces, "added"), without(pieces, "removed")], [before, after]);
  }
});

test("only the words that differ are marked", () => {
  assert.deepEqual(diff("The red house.", "The blue house."), [
    { kind: "same", text: "The " },
    { kind: "removed", text: "red" },
    { kind: "added", text: "blue" },
    { kind: "same", text: " house." },
  ]);
});

test("equal texts have no differences", () => {
  assert.deepEqual(diff("as it was", "as it was"), [{ kind: "same", text: "as it was" }]);
  assert.deepEqual(diff("", ""), []);
});

test("a diff of long texts with nothing in common contains both completely", () => {
  const [before, after] = ["x ".repeat(2000), "y\n".repeat(2000)];
  const pieces = diff(before, after);
  assert.deepEqual([without(pieces, "added"), without(pieces, "removed")], [before, after]);
});
