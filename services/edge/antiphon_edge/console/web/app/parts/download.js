/** Downloads a branch as a file that is made in the browser.
 * @import { Turn } from "../core/export.js" */
import { jsonLines, markdown } from "../core/export.js";
import * as forest from "../state/forest.js";
import * as library from "../state/library.js";
import { STRINGS } from "../strings.js";

/** @param {string} id The end of the branch. @param {"jsonl" | "md"} form */
async function downloadBranch(id, form) {
  const path = forest.tree.peek().pathTo(id);
  await Promise.all(path.map((each) => library.load(each)));
  const turns = path.map((each) => library.peek(each)).filter((each) => each.response !== null);
  const read = turns.map(({ response, input }) => /** @type {Turn} */ ({ response, input: input ?? [] }));
  const text = form === "jsonl" ? jsonLines(read) : markdown(read);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: form === "jsonl" ? "application/jsonl" : "text/markdown" }));
  link.download = `${id}.${form}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** The menu items of the export. @param {string} id @returns {[string, () => void][]} */
export function exportItems(id) {
  return [
    [STRINGS.export.lines, () => void downloadBranch(id, "jsonl")],
    [STRINGS.export.text, () => void downloadBranch(id, "md")],
  ];
}
