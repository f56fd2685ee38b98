/**
 * A request as code to paste. It takes the API key from OPENAI_API_KEY, as the SDKs do.
 * @import { Fields } from "../../types"
 */

export const LANGUAGES = /** @type {const} */ (["curl", "Python", "TypeScript"]);

/** @param {string} language @param {string} base The URL of the API, ending in /v1. @param {Fields} body */
export function snippet(language, base, body) {
  if (language === "Python") return python(base, body);
  return language === "TypeScript" ? typescript(base, body) : curl(base, body);
}

/** @param {string} base @param {Fields} body */
function curl(base, body) {
  const json = JSON.stringify(body, null, 2).replaceAll("'", "'\\''");
  return `curl ${base}/responses \\\n  -H "Authorization: Bearer $OPENAI_API_KEY" \\\n  -H 'Content-Type: application/json' \\\n  -d '${json}'\n`;
}

/** @param {string} base @param {Fields} body */
function python(base, body) {
  const members = Object.entries(body).map(([name, value]) => `    ${name}=${pythonValue(value, 4)},`);
  return `from openai import OpenAI

client = OpenAI(base_url=${JSON.stringify(base)})  # the key is in OPENAI_API_KEY
response = client.responses.create(
${members.join("\n")}
)
print(response.output_text)
`;
}

/** @param {any} value @param {number} indent @returns {string} */
function pythonValue(value, indent) {
  if (value === null || value === undefined) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value !== "object") return JSON.stringify(value);
  const pad = " ".repeat(indent);
  const rows = Array.isArray(value)
    ? value.map((each) => `${pad}    ${pythonValue(each, indent + 4)},`)
    : Object.entries(value).map(([name, each]) => `${pad}    ${JSON.stringify(name)}: ${pythonValue(each, indent + 4)},`);
  const [open, close] = Array.isArray(value) ? "[]" : "{}";
  return rows.length === 0 ? open + close : `${open}\n${rows.join("\n")}\n${pad}${close}`;
}

/** @param {string} base @param {Fields} body */
function typescript(base, body) {
  return `import OpenAI from "openai";

const client = new OpenAI({ baseURL: ${JSON.stringify(base)} }); // the key is in OPENAI_API_KEY
const response = await client.responses.create(${JSON.stringify(body, null, 2)});
console.log(response.output_text);
`;
}
