/** The parts of the API's objects that the console reads, and types of its own. */

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
export type Fields = Record<string, any>;

export interface Item extends Fields {
  id?: string;
  type: string;
  status?: string;
}

export interface Usage {
  input_tokens: number;
  output_tokens: number;
  total_tokens: number;
  input_tokens_details?: { cached_tokens?: number; cache_write_tokens?: number };
  output_tokens_details?: { reasoning_tokens?: number };
}

export interface ApiProblem {
  message: string;
  type?: string;
  param?: string | null;
  code?: string | null;
}

export interface Response extends Fields {
  id: string;
  status: string;
  model: string;
  output: Item[];
  created_at: number;
  completed_at?: number | null;
  previous_response_id?: string | null;
  usage?: Usage | null;
  error?: ApiProblem | null;
  deleted?: boolean;
}

/** A call that waits for an approval. */
export interface Approval {
  id: string;
  created_at: number;
  response_id: string;
  server_label: string;
  name: string;
  arguments: string;
}

export interface ApprovalPage {
  data: Approval[];
  next_cursor: string | null;
}

export interface ApiEvent extends Fields {
  type: string;
  sequence_number?: number;
}

/** An event, and its arrival time in milliseconds after the request. */
export interface Arrival {
  event: ApiEvent;
  at: number;
}

export interface Node {
  id: string;
  parent_id: string | null;
  status: string | null;
  depth: number;
  child_count: number;
  created_at: number;
}

/** The first difference between the prompts of two responses. */
export interface CacheDifference {
  cause: string;
  token: number | null;
  path: string | null;
  before: string | null;
  after: string | null;
}

/** What of the prompt of a response was cached, and what the rest was lost to. */
export interface CacheFacts {
  response_id: string;
  lost_tokens: number | null;
  lost: Record<string, number>;
  replica: string | null;
  comparison: { first_difference: CacheDifference | null } | null;
}

export interface NodePage {
  data: Node[];
  next_cursor: string | null;
  has_more: boolean;
}

/** One element of the drawn tree: a node, or a run of nodes that are drawn as one. */
export interface Spot {
  id: string;
  ids: string[];
  parent: Spot | null;
  children: Spot[];
  level: number;
  missing: number;
}

export interface Placed {
  spot: Spot;
  x: number;
  y: number;
}

export interface Rectangle {
  left: number;
  top: number;
  right: number;
  bottom: number;
}

export interface Attachment {
  name: string;
  kind: "image" | "file";
  url: string;
}

export interface Settings {
  model: string;
  instructions: string;
  temperature: string;
  topP: string;
  maxOutputTokens: string;
  effort: string;
  tools: string;
  format: "text" | "json_object" | "json_schema";
  schema: string;
  background: boolean;
  store: boolean;
}

/** A mistake in a field of the settings, with its position in the text. */
export interface Mistake {
  field: keyof Settings | "input";
  message: string;
  line?: number;
  column?: number;
}
