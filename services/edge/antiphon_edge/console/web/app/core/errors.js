/**
 * Errors of the API, and advice for the user.
 * @import { ApiProblem } from "../../types"
 */
import { STRINGS } from "../strings.js";

/** An error that the API answered. */
export class ApiError extends Error {
  /**
   * @param {number} status
   * @param {ApiProblem} problem
   * @param {string | null} requestId
   * @param {number | null} [retryAfterSeconds]
   */
  constructor(status, problem, requestId, retryAfterSeconds = null) {
    super(problem.message);
    this.status = status;
    this.code = problem.code ?? null;
    this.param = problem.param ?? null;
    this.requestId = requestId;
    this.retryAfterSeconds = retryAfterSeconds;
  }
}

/** Makes the error of an answer, even if its body is no error envelope. @param {Response} answer @returns {Promise<ApiError>} */
export async function errorOf(answer) {
  const body = await answer.json().catch(() => null);
  const problem = body?.error?.message ? body.error : { message: `${answer.status} ${answer.statusText}` };
  const later = Number(answer.headers.get("retry-after"));
  return new ApiError(answer.status, problem, answer.headers.get("x-request-id"), later || null);
}

/** Whether a retry may succeed: after a lost connection, a rate limit, or an error of the server. @param {unknown} error */
export function isRetryable(error) {
  if (error instanceof ApiError) return error.status === 429 || error.status >= 500;
  return error instanceof TypeError || (error instanceof DOMException && error.name === "NetworkError");
}

/** What the user can do about an error. @param {unknown} error @returns {string} */
export function adviceFor(error) {
  const advice = STRINGS.advice;
  if (!(error instanceof ApiError)) return error instanceof TypeError ? advice.network : advice.reload;
  const byCode = /** @type {Record<string, string>} */ (advice.byCode);
  if (error.code && error.code in byCode) return byCode[error.code];
  const byStatus = /** @type {Record<string, string>} */ (advice.byStatus);
  return byStatus[String(error.status)] ?? (error.status >= 500 ? advice.server : advice.request);
}
