import assert from "node:assert/strict";
import { test } from "node:test";
import { formatRoute, idIn, parseRoute } from "../../../services/edge/antiphon_edge/console/web/app/core/route.js";

test("a formatted route is parsed to the same route", () => {
  for (const route of [{ view: "chat", id: null }, { view: "tree", id: "resp_1" }, { view: "compare", id: "resp_1", other: "resp_2" }, { view: "live", id: null }, { view: "approvals", id: null }]) {
    assert.deepEqual(parseRoute(formatRoute(route)), route);
  }
});

test("an invalid address opens the playground, and an invalid id is dropped", () => {
  for (const fragment of ["", "#", "#/", "#/nowhere/resp_1", "#/compare/resp_1", "#/compare/resp_1/<b>"]) assert.deepEqual(parseRoute(fragment), { view: "chat", id: null });
  assert.deepEqual(parseRoute("#/tree/javascript:alert(1)"), { view: "tree", id: null });
});

test("a response id is found in pasted text", () => {
  assert.equal(idIn(" http://host/console#/tree/resp_aB1?x "), "resp_aB1");
  assert.equal(idIn("msg_1"), null);
});
