/** A tab without a browser, for modules of the console's state: storage, address, and a server that answers from a table. */

const stored = new Map();
const routes = [];

/** Requests that were sent, as "METHOD path". */
export const sent = [];

const storage = {
  getItem: (name) => stored.get(name) ?? null,
  setItem: (name, value) => void stored.set(name, String(value)),
  removeItem: (name) => void stored.delete(name),
};

Object.assign(globalThis, {
  sessionStorage: storage,
  localStorage: storage,
  location: { hash: "" },
  history: { replaceState: (_state, _title, to) => (globalThis.location.hash = to) },
  document: { baseURI: "http://edge.example/console" },
  addEventListener: () => undefined,
  requestAnimationFrame: (draw) => setTimeout(draw, 0),
  fetch: async (url, { method, signal, body }) => {
    const path = url.href.slice("http://edge.example/v1/".length);
    const asked = { path, signal, body: body ? JSON.parse(body) : undefined };
    sent.push(`${method} ${path}`);
    const found = routes.find((each) => each.method === method && each.pattern.test(path));
    return found ? found.answer(asked) : failed(404, "not_found");
  },
});

/** Answers requests from now on. The newest answer for a path is used. */
export function serve(method, pattern, answer) {
  routes.unshift({ method, pattern, answer });
}

export const json = (body, status = 200, headers = {}) => new Response(JSON.stringify(body), { status, headers });
export const failed = (status, code, headers = {}) => json({ error: { message: code, code, param: null } }, status, headers);

/** An answer whose events are sent by the test. */
export function streamed() {
  const line = new TransformStream();
  const writer = line.writable.getWriter();
  return {
    answer: new Response(line.readable, { headers: { "x-request-id": "req_1" } }),
    send: (...events) => writer.write(new TextEncoder().encode(events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join(""))),
    end: () => writer.close(),
    fail: () => writer.abort(new TypeError("network error")),
  };
}

/** Waits until a condition holds. */
export async function until(holds) {
  for (let tries = 0; tries < 400; tries += 1) {
    if (holds()) return;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  throw new Error(`never: ${holds}`);
}

export const response = (id, fields = {}) => ({
  id, object: "response", status: "completed", model: "m", output: [], created_at: 1, previous_response_id: null, store: true, background: false, ...fields,
});
export const message = (text) => ({ type: "message", role: "assistant", content: [{ type: "output_text", text }] });
export const page = (data) => json({ data, has_more: false, last_id: null });
