/**
 * Errors of the API in its own sentence, and advice for the reader.
 * @import { ApiProblem } from "../../types"
 */
import { STRINGS } from "../strings.js";

/** An answer of the API that is an error. */
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

/** The error of an answer, whatever its body is. @param {Response} answer @returns {Promise<ApiError>} */
export async function errorOf(answer) {
  const told = await answer.json().catch(() => null);
  const problem = told?.error?.message ? told.error : { message: `${answer.status} ${answer.statusText}` };
  const later = Number(answer.headers.get("retry-after"));
  return new ApiError(answer.status, problem, answer.headers.get("x-request-id"), later || null);
}

/** Whether the same request may do better later: a lost connection, a limit, a server that is away. @param {unknown} error */
export function mayPass(error) {
  if (error instanceof ApiError) return error.status === 429 || error.status >= 500;
  return error instanceof TypeError || (error instanceof DOMException && error.name === "NetworkError");
}

/** Advice for the reader of an error. @param {unknown} error @returns {string} */
export function adviceFor(error) {
  const advice = STRINGS.advice;
  if (!(error instanceof ApiError)) return error instanceof TypeError ? advice.network : advice.reload;
  const byCode = /** @type {Record<string, string>} */ (advice.byCode);
  if (error.code && error.code in byCode) return byCode[error.code];
  const byStatus = /** @type {Record<string, string>} */ (advice.byStatus);
  return byStatus[String(error.status)] ?? (error.status >= 500 ? advice.server : advice.request);
}
