// Minimal calls and arithmetic with replies. It must compile against the schema, and run against a service.
import createClient from "openapi-fetch";
import type { components, paths } from "../src/schema.js";

const client = createClient<paths>({ baseUrl: process.argv[2] ?? "", headers: { authorization: `Bearer ${process.argv[3]}` } });

function ok<Data>(reply: { data?: Data; error?: unknown }): Data {
  if (reply.data === undefined) throw new Error(JSON.stringify(reply.error));
  return reply.data;
}

function number(value: number): number {
  if (!Number.isFinite(value)) throw new Error(`${value} is not a number`);
  return value;
}

const inHome = { path: { slot: "home" } };
const ranked = ok(await client.POST("/v1/slots/{slot}/rank", { params: inHome, body: {} }));
const inEvent = { path: { event_id: ranked.event_id } };
const first: string | undefined = ranked.top_k[0];
number(ranked.sequence + ranked.retired.length + ranked.blocked.length);
const ruled = ok(await client.POST("/v1/slots/{slot}/rank", { params: inHome, body: { items: ["tea", "rice"], pins: { 1: "rice" }, blocked: ["jam"] } }));
if (ruled.ranking[0] !== "rice") throw new Error("a pin has no effect");

const grades = { [first ?? ""]: 1 };
const event = ok(await client.PUT("/v1/events/{event_id}/feedback", { params: inEvent, body: { grades } }));
const deadline: number | null = event.deadline;
if (deadline !== null || !event.learned) throw new Error("the event is not closed");

const slot = ok(await client.GET("/v1/slots/{slot}", { params: inHome }));
number(slot.ranked + slot.answered + slot.late + slot.due + slot.relaxed + slot.rules.length);
const mean: number | undefined = slot.value?.mean;
for (const minute of slot.minutes) number(minute.ranked + minute.explored);

const changed = ok(await client.PUT("/v1/slots/{slot}/items", { params: inHome, body: { items: ["pie", { id: "jam", group: "sweet" }] } }));
number(changed.added + changed.changed + changed.retired);
const retired = ok(await client.DELETE("/v1/slots/{slot}/items", { params: { ...inHome, query: { id: ["pie"] } } }));
number(retired.retired);
const page = ok(await client.GET("/v1/slots/{slot}/items", { params: inHome }));
for (const item of page.items) number(item.shown + item.n_feedback);
const next: string | null = page.next;

const failed = await client.POST("/v1/slots/{slot}/rank", { params: { path: { slot: "hone" } }, body: {} });
if (failed.error === undefined) throw new Error("no slot is called hone");
number(failed.error.status);

const line: components["schemas"]["BatchRank"] = { call: "rank", slot: "home", request: {} };

// These must not compile.
// @ts-expect-error a field of no request
const misspelt: components["schemas"]["RankRequest"] = { item: ["tea"] };
// @ts-expect-error a required field is missing
const without: components["schemas"]["ItemsRequest"] = {};
// @ts-expect-error null is not a number
const certain: number = event.deadline;

console.log(JSON.stringify({ first, mean, next, line, misspelt, without, certain }));
