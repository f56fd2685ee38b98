/** The entry point of the console: renders the page, and signs the user in. */
import { render } from "preact";
import { html } from "./parts/html.js";
import { applyTheme } from "./state/theme.js";
import { signIn } from "./state/session.js";
import { Shell } from "./views/shell.js";

applyTheme();
render(html`<${Shell} />`, /** @type {HTMLElement} */ (document.getElementById("console")));
void signIn();
