/**
 * A plane that is dragged, scrolled and zoomed. A move changes one transform, which the browser's compositor applies. The
 * content is drawn again only when the view leaves the drawn area.
 * @import { Camera, Size } from "../core/camera.js"
 * @import { Rectangle } from "../../types"
 */
import { contains, seen, SCALE_OF_CARDS, zoomed } from "../core/camera.js";

/** The margin around the view that is drawn, in pixels. */
const MARGIN = 500;
const DRAG_MIN = 4;

/** @typedef {{ area: Rectangle, isFar: boolean }} View */

export class Stage {
  /** @type {Camera} */
  camera = { x: 0, y: 0, scale: 1 };
  #frame = 0;
  /** @type {View | null} */
  #drawn = null;
  #isTouched = false;
  #resized = new ResizeObserver(() => this.#resize());

  /**
   * @param {HTMLElement} port The viewport.
   * @param {HTMLElement} plane The content, which moves behind the viewport.
   * @param {(view: View) => void} draw
   * @param {(size: Size) => Camera} opening The camera to use until the user moves the plane.
   */
  constructor(port, plane, draw, opening) {
    this.opening = opening;
    this.port = port;
    this.plane = plane;
    this.draw = draw;
    this.#listen();
  }

  get size() {
    return { width: this.port.clientWidth, height: this.port.clientHeight };
  }

  /** @param {Camera} camera */
  move(camera) {
    this.camera = camera;
    this.#frame ||= requestAnimationFrame(() => this.#show());
  }

  /** Resets the camera to the opening view. */
  open() {
    this.#isTouched = false;
    this.camera = this.opening(this.size);
    this.#show();
  }

  /** @param {number} factor @param {{ x: number, y: number }} [point] */
  zoom(factor, point = { x: this.size.width / 2, y: this.size.height / 2 }) {
    this.#isTouched = true;
    this.move(zoomed(this.camera, factor, point));
  }

  stop() {
    cancelAnimationFrame(this.#frame);
    this.#resized.disconnect();
  }

  #show() {
    this.#frame = 0;
    const { x, y, scale } = this.camera;
    this.plane.style.transform = `translate(${x}px, ${y}px) scale(${scale})`;
    const isFar = scale < SCALE_OF_CARDS;
    const needed = seen(this.camera, this.size, 0);
    if (this.#drawn && this.#drawn.isFar === isFar && contains(this.#drawn.area, needed)) return;
    this.#drawn = { area: seen(this.camera, this.size, MARGIN), isFar };
    this.draw(this.#drawn);
  }

  #resize() {
    this.#drawn = null;
    if (this.#isTouched) this.move(this.camera);
    else this.open();
  }

  #listen() {
    this.port.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
    this.port.addEventListener("pointerdown", (event) => this.#drag(event));
    this.#resized.observe(this.port);
  }

  /** @param {WheelEvent} event */
  #wheel(event) {
    event.preventDefault();
    this.#isTouched = true;
    const unit = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 16 : 1;
    const box = this.port.getBoundingClientRect();
    if (event.ctrlKey || event.metaKey) {
      this.zoom(Math.exp((-event.deltaY * unit) / 300), { x: event.clientX - box.left, y: event.clientY - box.top });
    } else {
      const { x, y, scale } = this.camera;
      this.move({ x: x - event.deltaX * unit, y: y - event.deltaY * unit, scale });
    }
  }

  /** @param {PointerEvent} begin */
  #drag(begin) {
    if (begin.button !== 0) return;
    const { x, y, scale } = this.camera;
    const follow = (/** @type {PointerEvent} */ event) => {
      const [dx, dy] = [event.clientX - begin.clientX, event.clientY - begin.clientY];
      if (!this.port.hasPointerCapture(event.pointerId)) {
        if (Math.hypot(dx, dy) < DRAG_MIN) return;
        this.port.setPointerCapture(event.pointerId);
        this.#isTouched = true;
      }
      this.move({ x: x + dx, y: y + dy, scale });
    };
    const end = () => {
      this.port.removeEventListener("pointermove", follow);
      this.port.removeEventListener("pointerup", end);
      this.port.removeEventListener("pointercancel", end);
    };
    this.port.addEventListener("pointermove", follow);
    this.port.addEventListener("pointerup", end);
    this.port.addEventListener("pointercancel", end);
  }
}
