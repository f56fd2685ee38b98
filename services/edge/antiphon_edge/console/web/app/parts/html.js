/** Makes elements of template literals. A value in a template is text, never HTML. */
import htm from "htm";
import { h } from "preact";

export const html = htm.bind(h);
