import assert from "node:assert/strict";
import { test } from "node:test";
import { centred, contains, fitted, revealing, SCALE_MAX, SCALE_MIN, seen, zoomed } from "../../../services/edge/antiphon_edge/console/web/app/core/camera.js";

const SIZE = { width: 800, height: 600 };

test("zooming keeps the point under the pointer in place", () => {
  const camera = { x: 13, y: -70, scale: 0.8 };
  const point = { x: 200, y: 300 };
  const next = zoomed(camera, 1.5, point);
  const plane = ({ x, y, scale }) => [(point.x - x) / scale, (point.y - y) / scale];
  plane(next).forEach((value, index) => assert.ok(Math.abs(value - plane(camera)[index]) < 1e-9));
  assert.deepEqual([zoomed(camera, 1e9, point).scale, zoomed(camera, 1e-9, point).scale], [SCALE_MAX, SCALE_MIN]);
});

test("fitting shows the whole content, at most at its own size", () => {
  const content = { width: 4000, height: 300 };
  assert.ok(contains(seen(fitted(content, SIZE, 20), SIZE, 0), { left: 0, top: 0, right: 4000, bottom: 300 }));
  assert.equal(fitted({ width: 10, height: 10 }, SIZE, 20).scale, 1);
});

test("revealing brings a box into view, and does not move for a visible box", () => {
  const box = { left: 3000, top: 2000, right: 3200, bottom: 2060 };
  const camera = revealing({ x: 0, y: 0, scale: 1 }, box, SIZE, 20);
  assert.ok(contains(seen(camera, SIZE, 0), box));
  assert.deepEqual(revealing(camera, box, SIZE, 20), camera);
});

test("centring puts a point into the middle of the view", () => {
  assert.deepEqual(centred({ x: 100, y: 50 }, SIZE, 2), { scale: 2, x: 200, y: 200 });
});
