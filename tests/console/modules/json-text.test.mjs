import assert from "node:assert/strict";
import { test } from "node:test";
import { firstMistake, parseJson } from "../../../services/edge/antiphon_edge/console/web/app/core/json-text.js";

test("a JSON mistake has its line, its column and the expected token", () => {
  const place = (text) => {
    const { line, column, message } = parseJson(text, "tools").mistake;
    return [line, column, message];
  };
  assert.deepEqual(place('[\n  {"type": function}\n]'), [2, 12, "Expected a value."]);
  assert.deepEqual(place('{"a": 1,}'), [1, 9, "Expected a name in double quotes."]);
  assert.deepEqual(place("{a: 1}"), [1, 2, "Expected a name in double quotes, or }."]);
  assert.deepEqual(place('{"a" 1}'), [1, 6, "Expected a colon."]);
  assert.deepEqual(place('[1 2]'), [1, 4, "Expected , or ]."]);
  assert.deepEqual(place('[1,'), [1, 4, "Expected a value."]);
  assert.deepEqual(place("[1] x"), [1, 5, "Expected the end."]);
  assert.deepEqual(place(""), [1, 1, "Expected a value."]);
});

test("a mistake is found in exactly the texts that JSON.parse refuses", () => {
  const text = JSON.stringify([{ type: "function", name: "f\n\"", parameters: { a: [1, -2.5e3, true, null, {}], b: [] } }], null, 1);
  assert.deepEqual(parseJson(text, "tools").value, JSON.parse(text));
  for (let at = 0; at < text.length; at += 1) {
    for (const change of ["", "x", "}", ",", '"']) {
      const changed = text.slice(0, at) + change + text.slice(at + 1);
      let isValid = true;
      try {
        JSON.parse(changed);
      } catch {
        isValid = false;
      }
      const found = firstMistake(changed);
      assert.equal(found.wanted === "the end" && found.position === changed.length, isValid, changed);
    }
  }
});
