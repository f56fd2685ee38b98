/**
 * Builds the answer to a call that waits for an approval.
 * @import { Approval, Fields, Response } from "../../types"
 */

/** The request that answers an approval. It continues the response that asks with the same model, instructions and tools: credentials of
 * tool servers are not stored, so the answer has none.
 * @param {Response} asker @param {Approval} approval @param {boolean} approve @param {string} reason @returns {Fields} */
export function bodyOfAnswer(asker, approval, approve, reason) {
  const answer = /** @type {Fields} */ ({ type: "mcp_approval_response", approval_request_id: approval.id, approve });
  if (!approve && reason.trim()) answer.reason = reason.trim();
  const body = /** @type {Fields} */ ({ model: asker.model, input: [answer], tools: asker.tools ?? [] });
  if (typeof asker.instructions === "string" && asker.instructions) body.instructions = asker.instructions;
  if (asker.conversation?.id) body.conversation = asker.conversation.id;
  else body.previous_response_id = asker.id;
  return body;
}

/** The arguments of a call, one member to a line if they are JSON. @param {string} text */
export function shownArguments(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
