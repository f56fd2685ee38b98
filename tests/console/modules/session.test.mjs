import assert from "node:assert/strict";
import { test } from "node:test";
import { failed, json, serve } from "./tab.mjs";

const session = await import("../../../services/edge/antiphon_edge/console/web/app/state/session.js");

test("an API key is kept when the server is away, and dropped when it is rejected", async () => {
  serve("GET", /^models$/, () => json({ data: [] }));
  await session.signIn("sk-kept");
  serve("GET", /^models$/, () => failed(503, "unavailable"));
  await session.signIn();
  assert.equal(sessionStorage.getItem("antiphon.key"), "sk-kept");
  assert.deepEqual([session.problem.value.status, session.needsKey.value, session.api.key()], [503, false, "sk-kept"]);
  serve("GET", /^models$/, () => failed(401, "invalid_api_key"));
  await session.signIn();
  assert.deepEqual([sessionStorage.getItem("antiphon.key"), session.needsKey.value, session.api.key()], [null, true, ""]);
});
