import assert from "node:assert/strict";
import { test } from "node:test";
import { execFileSync } from "node:child_process";
import { snippet } from "../../../services/edge/antiphon_edge/console/web/app/core/snippets.js";

const BODY = { model: "m", input: "It's \"quoted\" \\ $HOME `x`\nnew line 🌍", tools: [{ type: "function", strict: true, parameters: null }], temperature: 0.5 };
const BASE = "http://127.0.0.1:8000/v1";

test("the curl snippet passes the body unchanged through a shell", () => {
  const command = snippet("curl", BASE, BODY).replace(/^curl /, "printf '%s\\n' ");
  const words = execFileSync("sh", ["-c", command], { encoding: "utf8", env: { OPENAI_API_KEY: "k" } });
  assert.deepEqual(JSON.parse(words.slice(words.indexOf("\n-d\n") + 4)), BODY);
  assert.ok(words.startsWith(`${BASE}/responses\n-H\nAuthorization: Bearer k\n`));
});

test("the Python snippet has the values of the body", () => {
  const code = snippet("Python", BASE, BODY);
  const call = code.slice(code.indexOf("create(") + 7, code.indexOf("\n)\n"));
  const read = execFileSync("python3", ["-c", `import json; print(json.dumps(dict(${call})))`], { encoding: "utf8" });
  assert.deepEqual(JSON.parse(read), BODY);
});

test("the TypeScript snippet has the values of the body", () => {
  const code = snippet("TypeScript", BASE, BODY);
  const [, literal] = /create\(([\s\S]*)\);\nconsole/.exec(code);
  assert.deepEqual(new Function(`return ${literal}`)(), BODY);
});

test("no snippet contains an API key", () => {
  for (const language of ["curl", "Python", "TypeScript"]) assert.ok(!/ak_/.test(snippet(language, BASE, BODY)));
});
