/** Client of the peekrank service. Every call may be repeated, so that the client retries them itself. */
import type { components } from "./schema.js";

type Schemas = components["schemas"];

export type { components, operations, paths } from "./schema.js";
export type ChangedReply = Schemas["ChangedReply"];
export type EventReply = Schemas["EventReply"];
export type FeedbackRequest = Schemas["FeedbackRequest"];
export type Item = Schemas["Item"];
export type ItemReply = Schemas["ItemReply"];
export type ItemsReply = Schemas["ItemsReply"];
export type ProblemReply = Schemas["ProblemReply"];
export type RankReply = Schemas["RankReply"];
export type RankRequest = Schemas["RankRequest"];
export type RerankReply = Schemas["RerankReply"];
export type RerankRequest = Schemas["RerankRequest"];
export type SlotReply = Schemas["SlotReply"];
export type StatsReply = Schemas["StatsReply"];
export type TraceReply = Schemas["TraceReply"];

export interface Options {
  /** Key of the app. A browser must not have one: call the service from your server. */
  key?: string;
  /** Milliseconds for each attempt, 5,000 if missing. */
  timeout?: number;
  /** How often to repeat a call that failed for a moment, 5 if missing. */
  retries?: number;
  /** Instead of the global `fetch`, for tests and proxies. */
  fetch?: typeof globalThis.fetch;
}

/** The service rejected a call, or is not what the address leads to. */
export class PeekrankError extends Error {
  override readonly name = "PeekrankError";

  constructor(
    /** HTTP status. */
    readonly status: number,
    /** Type of the problem, for example `unknown-slot`. */
    readonly kind: string,
    message: string,
    /** Location in the body, for example `$.items[3]`. */
    readonly field: string | null = null,
    /** Seconds to wait before another attempt. */
    readonly retryAfter: number | null = null,
  ) {
    super(message);
  }
}

type Fields = Record<string, unknown>;

interface Call {
  method: "GET" | "POST" | "PUT" | "DELETE";
  path: string;
  body?: Fields;
}

const RETRIED = new Set([408, 429, 502, 503, 504]);
const FIRST_PAUSE = 100; // milliseconds; each further pause is twice as long
const LONGEST_PAUSE = 2000;

export class Client {
  readonly #url: string;
  readonly #headers: Record<string, string>;
  readonly #timeout: number;
  readonly #retries: number;
  readonly #fetch: typeof globalThis.fetch;

  constructor(url: string, options: Options = {}) {
    this.#url = url.replace(/\/+$/, "");
    this.#headers = options.key === undefined ? {} : { authorization: `Bearer ${options.key}` };
    this.#timeout = options.timeout ?? 5000;
    this.#retries = options.retries ?? 5;
    this.#fetch = options.fetch ?? ((...call) => globalThis.fetch(...call));
  }

  /** Rank a list. The client chooses the event id if you do not, so that a retry gets the same list. */
  rank(slot: string, request: RankRequest = {}): Promise<RankReply> {
    return this.#call({ method: "POST", path: `${inSlot(slot)}/rank`, body: withEvent(request) });
  }

  /** Rank documents for a query. A slot answers if its configuration has a rerank table. */
  rerank(request: RerankRequest & { texts?: never }): Promise<RerankReply> {
    return this.#call({ method: "POST", path: "/v1/rerank", body: withEvent(request) });
  }

  /** Submit feedback on a list. */
  feedback(event: string, request: FeedbackRequest): Promise<EventReply> {
    return this.#call({ method: "PUT", path: `${ofEvent(event)}/feedback`, body: { ...request } });
  }

  /** Submit a grade on the rerank calls of a trace, by its id in `traceparent`. */
  traceFeedback(trace: string, request: FeedbackRequest): Promise<TraceReply> {
    const path = `/v1/events/trace:${encodeURIComponent(trace)}/feedback`;
    return this.#call({ method: "PUT", path, body: { ...request } });
  }

  /** Report that a deferred list is now shown. */
  activate(event: string): Promise<EventReply> {
    return this.#call({ method: "POST", path: `${ofEvent(event)}/activate` });
  }

  /** Get an event. */
  event(event: string): Promise<EventReply> {
    return this.#call({ method: "GET", path: ofEvent(event) });
  }

  /** Register items, or replace what is known of them. */
  putItems(slot: string, items: (string | Item)[]): Promise<ChangedReply> {
    return this.#call({ method: "PUT", path: `${inSlot(slot)}/items`, body: { items } });
  }

  /** Retire items: the service no longer ranks them. */
  retireItems(slot: string, ids: string[]): Promise<ChangedReply> {
    const query = new URLSearchParams(ids.map((id) => ["id", id]));
    return this.#call({ method: "DELETE", path: `${inSlot(slot)}/items?${query}` });
  }

  /** Iterate over all items of a slot. */
  async *items(slot: string): AsyncGenerator<ItemReply> {
    for (let after: string | null = ""; after !== null; ) {
      const query: string = new URLSearchParams({ limit: "1000", ...(after && { after }) }).toString();
      const page: ItemsReply = await this.#call({ method: "GET", path: `${inSlot(slot)}/items?${query}` });
      yield* page.items;
      after = page.next;
    }
  }

  /** List the slots. */
  async slots(): Promise<SlotReply[]> {
    return (await this.#call<Schemas["SlotsReply"]>({ method: "GET", path: "/v1/slots" })).slots;
  }

  /** Get a slot. */
  slot(name: string): Promise<SlotReply> {
    return this.#call({ method: "GET", path: inSlot(name) });
  }

  /** Get the state of the service. */
  stats(): Promise<StatsReply> {
    return this.#call({ method: "GET", path: "/v1/stats" });
  }

  /** Send a call, again if it failed for a moment, and read the reply. */
  async #call<Reply>({ method, path, body }: Call): Promise<Reply> {
    const content = body === undefined ? {} : { body: JSON.stringify(body) };
    const headers = { ...this.#headers, ...(body && { "content-type": "application/json" }) };
    for (let left = this.#retries, pause = FIRST_PAUSE; ; left -= 1, pause = Math.min(2 * pause, LONGEST_PAUSE)) {
      const signal = AbortSignal.timeout(this.#timeout);
      try {
        const response = await this.#fetch(this.#url + path, { method, headers, signal, ...content });
        const text = await response.text(); // may fail, too
        if (left <= 0 || !RETRIED.has(response.status)) return read<Reply>(response, text);
      } catch (error) {
        if (left <= 0 || error instanceof PeekrankError) throw error;
      }
      await new Promise((resume) => setTimeout(resume, pause * (0.5 + Math.random() / 2)));
    }
  }
}

function read<Reply>(response: Response, text: string): Reply {
  const type = (response.headers.get("content-type") ?? "").split(";")[0];
  if (response.ok && type === "application/json") return JSON.parse(text) as Reply;
  if (type === "application/problem+json") {
    const problem = JSON.parse(text) as ProblemReply;
    const kind = problem.type.slice(problem.type.lastIndexOf("/") + 1);
    throw new PeekrankError(response.status, kind, problem.detail, problem.field, problem.retry_after);
  }
  throw new PeekrankError(
    response.status,
    "no-such-page",
    `status ${response.status}: this is not a peekrank service. Check the address`,
  );
}

function withEvent(request: { event_id?: string | null }): Fields {
  return { ...request, event_id: request.event_id ?? crypto.randomUUID() };
}

function inSlot(name: string): string {
  return `/v1/slots/${encodeURIComponent(name)}`;
}

function ofEvent(id: string): string {
  return `/v1/events/${encodeURIComponent(id)}`;
}
