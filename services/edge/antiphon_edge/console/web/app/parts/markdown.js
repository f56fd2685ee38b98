/** Renders Markdown. Links open a new tab without a referrer; images are shown as links.
 * @import { Block, Inline } from "../core/markdown.js" */
import { useMemo } from "preact/hooks";
import { parse } from "../core/markdown.js";
import { CopyButton } from "./copy-button.js";
import { html } from "./html.js";

/** @param {{ text: string }} props */
export function Markdown({ text }) {
  const blocks = useMemo(() => parse(text), [text]);
  return html`<div class="prose">${blocks.map(block)}</div>`;
}

/** @param {Block} it @returns {any} */
function block(it) {
  switch (it.kind) {
    case "paragraph":
      return html`<p>${it.inside.map(inline)}</p>`;
    case "heading":
      return html`<p class=${`heading heading-${it.level}`} role="heading" aria-level=${Math.min(6, it.level + 2)}>${it.inside.map(inline)}</p>`;
    case "code":
      return html`<div class="code"><${CopyButton} text=${it.text} /><pre tabindex="0"><code>${it.text}</code></pre></div>`;
    case "quote":
      return html`<blockquote>${it.blocks.map(block)}</blockquote>`;
    case "rule":
      return html`<hr />`;
    case "list":
      return list(it);
    case "table":
      return table(it);
  }
}

/** @param {Extract<Block, { kind: "list" }>} it */
function list(it) {
  const items = it.items.map((blocks) => html`<li>${blocks.map(block)}</li>`);
  return it.ordered ? html`<ol start=${it.start}>${items}</ol>` : html`<ul>${items}</ul>`;
}

/** @param {Extract<Block, { kind: "table" }>} it */
function table(it) {
  return html`<div class="scroll" tabindex="0"><table>
    <thead><tr>${it.head.map((cell) => html`<th>${cell.map(inline)}</th>`)}</tr></thead>
    <tbody>${it.rows.map((row) => html`<tr>${row.map((cell) => html`<td>${cell.map(inline)}</td>`)}</tr>`)}</tbody>
  </table></div>`;
}

/** @param {Inline} it @returns {any} */
function inline(it) {
  switch (it.kind) {
    case "text":
      return it.text;
    case "code":
      return html`<code>${it.text}</code>`;
    case "strong":
      return html`<strong>${it.inside.map(inline)}</strong>`;
    case "em":
      return html`<em>${it.inside.map(inline)}</em>`;
    case "del":
      return html`<del>${it.inside.map(inline)}</del>`;
    case "link":
      return html`<a href=${it.href} target="_blank" rel="noopener noreferrer nofollow">${it.inside.map(inline)}</a>`;
    case "break":
      return html`<br />`;
  }
}
