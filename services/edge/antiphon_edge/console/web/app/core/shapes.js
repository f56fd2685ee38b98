/**
 * SVG paths of the tree: lines between spots, and the marks that replace cards at a small scale.
 * @import { Placed } from "../../types"
 */
import { CARD, GAP, RUN_HEIGHT } from "./layout.js";

/** The line from a spot down to its child. @param {Placed} from @param {Placed} to */
export function edge(from, to) {
  const [x1, x2] = [from.x + CARD.width / 2, to.x + CARD.width / 2];
  const [y1, y2] = [from.y + CARD.height - inset(from), to.y + inset(to)];
  const bend = GAP.y / 2;
  return x1 === x2 ? `M${x1} ${y1}V${y2}` : `M${x1} ${y1}C${x1} ${y1 + bend} ${x2} ${y2 - bend} ${x2} ${y2}`;
}

/** The space above and below a run, which is lower than a card. @param {Placed} placed */
const inset = ({ spot }) => (spot.ids.length > 1 ? (CARD.height - RUN_HEIGHT) / 2 : 0);

/** The shape of each status, for users who cannot tell the colours. */
export const SHAPES = /** @type {Record<string, (x: number, y: number, r: number) => string>} */ ({
  completed: (x, y, r) => `M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0z`,
  failed: (x, y, r) => `M${x} ${y - r * 1.2}L${x + r * 1.2} ${y}L${x} ${y + r * 1.2}L${x - r * 1.2} ${y}z`,
  incomplete: (x, y, r) => `M${x - r} ${y}a${r} ${r} 0 0 1 ${2 * r} 0z`,
  cancelled: (x, y, r) => `M${x - r} ${y - r}h${2 * r}v${2 * r}h${-2 * r}z`,
  in_progress: (x, y, r) => `M${x - r * 0.8} ${y - r}L${x + r} ${y}L${x - r * 0.8} ${y + r}z`,
  queued: (x, y, r) => `M${x - r} ${y - r * 0.8}h${2 * r}v${r * 0.5}h${-2 * r}zm0 ${r * 1.1}h${2 * r}v${r * 0.5}h${-2 * r}z`,
  deleted: (x, y, r) => `M${x - r} ${y - r * 0.25}h${2 * r}v${r * 0.5}h${-2 * r}z`,
});

/** @param {string | null} status */
export function shapeOf(status) {
  return SHAPES[status ?? "deleted"] ?? SHAPES.completed;
}
