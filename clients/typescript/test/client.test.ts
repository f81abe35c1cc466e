// The client against a running service, in PEEKRANK_URL, with the key PEEKRANK_KEY.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { test } from "node:test";
import { Client, PeekrankError, type RankReply } from "../src/index.js";

const url = process.env["PEEKRANK_URL"] ?? "";
const key = process.env["PEEKRANK_KEY"] ?? "";
const client = new Client(`${url}/`, { key });

/** Calls the service, but the first replies are lost or say that it is busy. */
function unreliable(...outcomes: ("lost" | number)[]): { fetch: typeof fetch; bodies: string[] } {
  const bodies: string[] = [];
  return {
    bodies,
    fetch: async (...call) => {
      bodies.push(String(call[1]?.body));
      const outcome = outcomes.shift();
      if (typeof outcome === "number") return new Response("busy", { status: outcome });
      const reply = await fetch(...call);
      if (outcome === "lost") throw new TypeError("fetch failed");
      return reply;
    },
  };
}

async function rankedInHome(): Promise<number> {
  return (await client.slot("home")).ranked;
}

test("ranks, learns and lists", async () => {
  const shown: RankReply = await client.rank("home", { items: ["tea", { id: "rice" }], pins: { 1: "rice" } });
  assert.deepEqual(shown.ranking, ["rice", "tea"]);
  const event = await client.feedback(shown.event_id, { grades: { rice: 1 } });
  assert.equal(event.learned, true);
  assert.equal((await client.event(shown.event_id)).state, "answered");
  assert.equal((await client.putItems("home", ["plum", "a b&c"])).added, 2);
  assert.equal((await client.retireItems("home", ["plum", "a b&c"])).retired, 2);
  const names = [];
  for await (const item of client.items("home")) names.push(item.id);
  assert.ok(names.includes("a b&c"));
  assert.deepEqual((await client.slots()).map((slot) => slot.name), ["home", "faq"]);
  assert.equal((await client.stats()).role, "owner");
});

test("activates deferred lists", async () => {
  const { event_id } = await client.rank("home", { defer: true });
  assert.equal((await client.event(event_id)).state, "open");
  assert.equal((await client.activate(event_id)).state, "shown");
});

test("reranks, and finds the call by its trace", async () => {
  const documents = ["Juice is pressed.", { text: "Tea is hot.", id: "tea" }];
  const reply = await client.rerank({ model: "faq", query: "hot drink", documents, top_n: 1 });
  assert.deepEqual(reply.results.map((one) => one.index), [0]);
  assert.equal((await client.feedback(reply.id, { grade: 1, cited: ["tea"] })).learned, true);
  const trace = "4bf92f3577b34da6a3ce929d0e0e4736"; // as instrumentation of fetch sends it
  const traced: typeof fetch = (address, call) =>
    fetch(address, { ...call, headers: { ...call?.headers, traceparent: `00-${trace}-00f067aa0ba902b7-01` } });
  const { id } = await new Client(url, { key, fetch: traced }).rerank({ model: "faq", query: "", documents: ["Tea is hot."] });
  const found = await client.traceFeedback(trace, { grade: 0, cited: [0] });
  assert.deepEqual(found.events.map((one) => one.event_id), [id]);
});

test("a retry gets the list that the service chose before, which counts once", async () => {
  for (const outcome of ["lost", 429, 503] as const) {
    const before = await rankedInHome();
    const proxy = unreliable(outcome, "lost");
    const shown = await new Client(url, { key, fetch: proxy.fetch }).rank("home");
    assert.equal(proxy.bodies.length, 3);
    assert.equal(new Set(proxy.bodies).size, 1);
    assert.equal(await rankedInHome(), before + 1);
    assert.deepEqual((await client.event(shown.event_id)).ranking, shown.ranking);
  }
});

test("gives up after its retries, and does not repeat calls that are wrong", async () => {
  const busy = unreliable(503, 503, 503);
  await assert.rejects(new Client(url, { key, fetch: busy.fetch, retries: 1 }).stats(), { status: 503 });
  assert.equal(busy.bodies.length, 2);
  const lost = unreliable("lost", "lost");
  await assert.rejects(new Client(url, { key, fetch: lost.fetch, retries: 0 }).stats(), TypeError);
  assert.equal(lost.bodies.length, 1);
  const wrong = unreliable();
  await assert.rejects(new Client(url, { key, fetch: wrong.fetch }).rank("hone"), (error) => {
    assert.ok(error instanceof PeekrankError);
    assert.deepEqual([error.status, error.kind], [404, "unknown-slot"]);
    assert.match(error.message, /did you mean 'home'/);
    return true;
  });
  assert.equal(wrong.bodies.length, 1);
  await assert.rejects(new Client(url).stats(), { status: 401 });
});

test("says when the address leads elsewhere", async () => {
  const elsewhere = new Client(url, { fetch: async () => new Response("<html>", { status: 200 }) });
  await assert.rejects(elsewhere.stats(), /not a peekrank service/);
});

test("stops waiting for a service that hangs", async () => {
  const hanging: typeof fetch = (_, call) =>
    new Promise((_, reject) => call?.signal?.addEventListener("abort", () => reject(call.signal?.reason)));
  const impatient = new Client(url, { fetch: hanging, timeout: 5, retries: 1 });
  const alive = setInterval(() => {}, 1000); // as a socket would keep the process
  await assert.rejects(impatient.stats(), { name: "TimeoutError" }).finally(() => clearInterval(alive));
});

test("the example shows a page without the key, and passes the answer on", async () => {
  const path = new URL("../examples/server.js", import.meta.url).pathname;
  const environment = { ...process.env, PEEKRANK_URL: url, PEEKRANK_KEY: key, PORT: "0" };
  const server = spawn(process.execPath, [path], { env: environment, stdio: ["ignore", "pipe", "ignore"] });
  try {
    const [line] = await once(server.stdout, "data");
    const address = `http://127.0.0.1:${JSON.parse(String(line)).port}`;
    const html = await (await fetch(address)).text();
    assert.ok(!html.includes(key));
    const event = /name="event" value="([^"]+)"/.exec(html)?.[1] ?? "";
    const post = (name: string): Promise<Response> =>
      fetch(`${address}/answer`, { method: "POST", body: new URLSearchParams({ event: name, grade: "1" }) });
    assert.equal(await (await post(event)).text(), "Thank you.");
    assert.equal((await client.event(event)).state, "answered");
    assert.deepEqual([(await post("unknown")).status, await (await post("unknown")).text()], [404, "Something went wrong."]);
  } finally {
    server.kill();
  }
});
