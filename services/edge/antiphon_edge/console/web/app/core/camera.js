/**
 * The camera of a plane: offset and scale of the visible part. screen = plane * scale + offset.
 * @import { Rectangle } from "../../types"
 */

export const SCALE_MIN = 0.06;
export const SCALE_MAX = 1.6;
/** Below this scale text is unreadable, and marks are drawn instead of cards. */
export const SCALE_OF_CARDS = 0.42;

/** @typedef {{ x: number, y: number, scale: number }} Camera */
/** @typedef {{ width: number, height: number }} Size */

/** The part of the plane that a camera sees, with a margin around it in pixels of the screen.
 * @param {Camera} camera @param {Size} size @param {number} margin @returns {Rectangle} */
export function seen({ x, y, scale }, { width, height }, margin) {
  return {
    left: (-x - margin) / scale,
    top: (-y - margin) / scale,
    right: (width - x + margin) / scale,
    bottom: (height - y + margin) / scale,
  };
}

/** @param {Rectangle} outer @param {Rectangle} inner */
export function contains(outer, inner) {
  return outer.left <= inner.left && outer.top <= inner.top && outer.right >= inner.right && outer.bottom >= inner.bottom;
}

/** Changes the scale around a point of the screen, which stays in place.
 * @param {Camera} camera @param {number} factor @param {{ x: number, y: number }} point @returns {Camera} */
export function zoomed(camera, factor, point) {
  const scale = Math.min(SCALE_MAX, Math.max(SCALE_MIN, camera.scale * factor));
  const by = scale / camera.scale;
  return { scale, x: point.x - (point.x - camera.x) * by, y: point.y - (point.y - camera.y) * by };
}

/** Shows all content, at its natural size at most. @param {Size} content @param {Size} size @param {number} margin @returns {Camera} */
export function fitted(content, size, margin) {
  const wide = (size.width - 2 * margin) / Math.max(1, content.width);
  const high = (size.height - 2 * margin) / Math.max(1, content.height);
  const scale = Math.max(SCALE_MIN, Math.min(1, wide, high));
  return { scale, x: (size.width - content.width * scale) / 2, y: Math.max(margin, (size.height - content.height * scale) / 2) };
}

/** Moves a point of the plane to the middle of the screen. @param {{ x: number, y: number }} point @param {Size} size @param {number} scale @returns {Camera} */
export function centred(point, size, scale) {
  return { scale, x: size.width / 2 - point.x * scale, y: size.height / 2 - point.y * scale };
}

/** Moves as little as possible so that a rectangle is visible. @param {Camera} camera @param {Rectangle} box @param {Size} size @param {number} margin @returns {Camera} */
export function revealing(camera, box, size, margin) {
  const { scale } = camera;
  return {
    scale,
    x: shifted(camera.x, box.left * scale, box.right * scale, size.width, margin),
    y: shifted(camera.y, box.top * scale, box.bottom * scale, size.height, margin),
  };
}

/** @param {number} offset @param {number} from @param {number} to @param {number} size @param {number} margin */
function shifted(offset, from, to, size, margin) {
  if (from + offset < margin) return margin - from;
  return to + offset > size - margin ? size - margin - to : offset;
}
