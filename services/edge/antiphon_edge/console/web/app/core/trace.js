/** W3C trace contexts: they link a request of the console to its trace on the server. */

/** @param {(bytes: Uint8Array) => Uint8Array} [random] */
export function newTrace(random = (bytes) => crypto.getRandomValues(bytes)) {
  const id = hex(random(new Uint8Array(16)));
  const span = hex(random(new Uint8Array(8)));
  return { id, header: `00-${id}-${span}-01` };
}

/** @param {Uint8Array} bytes */
const hex = (bytes) => [...bytes].map((each) => each.toString(16).padStart(2, "0")).join("");
