/** Reads files as data URLs, the form in which a request carries them. @import { Attachment } from "../../types" */

/** @param {Iterable<File>} files @returns {Promise<Attachment[]>} */
export function readFiles(files) {
  return Promise.all([...files].map(readFile));
}

/** @param {File} file @returns {Promise<Attachment>} */
async function readFile(file) {
  const url = await new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
  return { name: file.name, kind: file.type.startsWith("image/") ? "image" : "file", url };
}
