/** The form for the API key. */
import { html } from "../parts/html.js";
import { ErrorNote } from "../parts/error-note.js";
import { needsKey, problem, signIn } from "../state/session.js";
import { STRINGS } from "../strings.js";

export function SignIn() {
  const submit = (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    const field = /** @type {HTMLInputElement} */ (/** @type {HTMLFormElement} */ (event.currentTarget).elements.namedItem("key"));
    void signIn(field.value.trim() || undefined);
  };
  return html`<main class="sign-in">
    <form onSubmit=${submit} autocomplete="off">
      <h1>${STRINGS.name}</h1>
      <p class="lead">${STRINGS.signIn.lead}</p>
      <label for="key">${STRINGS.signIn.key}</label>
      <input id="key" name="key" type="password" autocomplete="off" spellcheck=${false} required=${needsKey.value} autofocus />
      <button type="submit" class="primary">${STRINGS.signIn.submit}</button>
      ${problem.value !== null && html`<${ErrorNote} error=${problem.value} />`}
      <p class="hint">${STRINGS.signIn.hint} <code>antiphon keys create</code></p>
    </form>
  </main>`;
}
