/**
 * Validates tools and schemas before a request is sent. The API validates them again; its error is shown in the same
 * place.
 * @import { Fields } from "../../types"
 */

const TYPES = new Set(["object", "array", "string", "number", "integer", "boolean", "null"]);
const NAME = /^[A-Za-z0-9_-]{1,64}$/;

/**
 * @param {unknown} tools
 * @returns {string[]} sentences that begin with a path
 */
export function toolProblems(tools) {
  if (!Array.isArray(tools)) return ["tools: must be an array, such as [ { \"type\": \"function\", ... } ]."];
  return tools.flatMap((tool, index) => problemsOf(tool, `tools[${index}]`));
}

/** @param {unknown} tool @param {string} path */
function problemsOf(tool, path) {
  if (!isObject(tool)) return [`${path}: must be an object.`];
  if (typeof tool.type !== "string") return [`${path}.type: must be "function" or "custom".`];
  const found = [];
  if (["function", "custom"].includes(tool.type) && !NAME.test(String(tool.name ?? ""))) {
    found.push(`${path}.name: must have 1 to 64 letters, digits, "_" or "-".`);
  }
  if (tool.type === "function" && tool.parameters !== undefined && tool.parameters !== null) {
    found.push(...schemaProblems(tool.parameters, `${path}.parameters`));
  }
  return found;
}

/**
 * @param {unknown} schema
 * @param {string} path
 * @param {number} [depth]
 * @returns {string[]}
 */
export function schemaProblems(schema, path, depth = 0) {
  if (typeof schema === "boolean" || depth > 40) return [];
  if (!isObject(schema)) return [`${path}: must be an object.`];
  const found = typeProblems(schema.type, `${path}.type`);
  if (schema.required !== undefined && !isStrings(schema.required)) found.push(`${path}.required: must be an array of strings.`);
  if (schema.enum !== undefined && !Array.isArray(schema.enum)) found.push(`${path}.enum: must be an array.`);
  if (schema.properties !== undefined && !isObject(schema.properties)) found.push(`${path}.properties: must be an object.`);
  for (const [name, inner] of Object.entries(isObject(schema.properties) ? schema.properties : {})) {
    found.push(...schemaProblems(inner, `${path}.properties.${name}`, depth + 1));
  }
  for (const name of isStrings(schema.required) ? schema.required : []) {
    if (isObject(schema.properties) && !(name in schema.properties)) found.push(`${path}.required: "${name}" is no property.`);
  }
  if (schema.items !== undefined) found.push(...schemaProblems(schema.items, `${path}.items`, depth + 1));
  return found;
}

/** @param {unknown} type @param {string} path */
function typeProblems(type, path) {
  const named = type === undefined ? [] : Array.isArray(type) ? type : [type];
  const strange = named.filter((each) => !TYPES.has(String(each)));
  return strange.map((each) => `${path}: "${each}" is no type of JSON Schema.`);
}

/** @param {unknown} value @returns {value is Fields} */
const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
/** @param {unknown} value @returns {value is string[]} */
const isStrings = (value) => Array.isArray(value) && value.every((each) => typeof each === "string");
