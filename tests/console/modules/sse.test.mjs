import assert from "node:assert/strict";
import { test } from "node:test";
import { EventReader } from "../../../services/edge/antiphon_edge/console/web/app/core/sse.js";

const EVENTS = [
  { type: "response.created", sequence_number: 0 },
  { type: "response.output_text.delta", sequence_number: 1, delta: "Grüße 🌍\n" },
];
const TEXT = `: keep-alive\n\n${EVENTS.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join("")}data: [DONE]\n\n`;

test("events are parsed equally however their text is cut", () => {
  for (let size = 1; size < TEXT.length; size += 1) {
    const reader = new EventReader();
    const found = [];
    for (let at = 0; at < TEXT.length; at += size) found.push(...reader.push(TEXT.slice(at, at + size)));
    assert.deepEqual(found, EVENTS);
  }
});

test("lines that end with CRLF are parsed", () => {
  assert.deepEqual(new EventReader().push(TEXT.replaceAll("\n", "\r\n")), EVENTS);
});
