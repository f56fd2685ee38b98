/** Icons. They are decoration only: each stands beside a text or has a label. */
import { html } from "./html.js";

const PATHS = {
  chat: "M4 5h16v11H9l-5 4z",
  tree: "M12 4v6M12 10c0 5-6 3-6 8M12 10c0 5 6 3 6 8",
  live: "M3 12h4l3-7 4 14 3-7h4",
  approvals: "M5 12l5 5 9-11",
  plus: "M12 5v14M5 12h14",
  minus: "M5 12h14",
  send: "M12 19V5M5 12l7-7 7 7",
  stop: "M7 7h10v10H7z",
  fork: "M7 4v16M7 12c0-4 10-2 10-8",
  again: "M4 12a8 8 0 1 0 3-6M4 4v4h4",
  clip: "M8 12l6-6a3 3 0 0 1 4 4l-8 8a5 5 0 0 1-7-7l7-7",
  code: "M8 7l-5 5 5 5M16 7l5 5-5 5",
  sliders: "M4 7h9M17 7h3M4 17h3M11 17h9M15 5v4M9 15v4",
  theme: "M12 4a8 8 0 1 0 8 8 6 6 0 0 1-8-8z",
  out: "M10 5H5v14h5M14 8l4 4-4 4M18 12H9",
  left: "M14 6l-6 6 6 6",
  right: "M10 6l6 6-6 6",
  close: "M6 6l12 12M18 6L6 18",
  fit: "M4 9V4h5M15 4h5v5M20 15v5h-5M9 20H4v-5",
  open: "M9 5H5v14h14v-4M13 5h6v6M19 5l-9 9",
  save: "M12 4v11M7 10l5 5 5-5M5 20h14",
  compare: "M5 5h5v14H5zM14 5h5v14h-5z",
  folded: "M7 9l5 5 5-5",
};

/** @param {{ name: keyof typeof PATHS }} props */
export function Icon({ name }) {
  return html`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true"><path d=${PATHS[name]} /></svg>`;
}
