// A page with a ranking and a button. The browser talks to this server, which alone has the key of the service.
//   PEEKRANK_URL=http://127.0.0.1:8000 PEEKRANK_KEY=peek_app_... node dist/examples/server.js
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { Client, PeekrankError } from "../src/index.js";

const { PEEKRANK_URL = "http://127.0.0.1:8000", PEEKRANK_KEY, PORT = "3000" } = process.env;
const service = new Client(PEEKRANK_URL, PEEKRANK_KEY === undefined ? {} : { key: PEEKRANK_KEY });

const escaped = (text: string): string => text.replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`);

async function page(): Promise<string> {
  const { event_id, ranking, top_k } = await service.rank("home");
  const rows = ranking.map((item) => `<li>${escaped(item)}</li>`).join("");
  const buttons = ["no", "yes"].map((text, grade) => `<button name="grade" value="${grade}">${text}</button>`);
  return `<!doctype html><title>Drinks</title><ol>${rows}</ol>
<form method="post" action="/answer"><input type="hidden" name="event" value="${escaped(event_id)}">
Do you like ${escaped(top_k[0] ?? "")}? ${buttons.join(" ")}</form>`;
}

async function answer(request: IncomingMessage): Promise<string> {
  let text = "";
  for await (const part of request) if ((text += part).length > 1000) throw new RangeError("the form is too long");
  const form = new URLSearchParams(text);
  const event = await service.feedback(form.get("event") ?? "", { grades: [form.get("grade") === "1" ? 1 : 0] });
  return event.learned ? "Thank you." : "You have answered before.";
}

async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const reply = (status: number, type: string, content: string) =>
    response.writeHead(status, { "content-type": `${type}; charset=utf-8` }).end(content);
  try {
    if (request.method === "GET" && request.url === "/") reply(200, "text/html", await page());
    else if (request.method === "POST" && request.url === "/answer") reply(200, "text/plain", await answer(request));
    else reply(404, "text/plain", "This page does not exist.");
  } catch (error) {
    console.error(error); // the browser learns nothing about the service
    reply(error instanceof PeekrankError && error.status === 404 ? 404 : 500, "text/plain", "Something went wrong.");
  }
}

const server = createServer((request, response) => void handle(request, response));
server.listen(Number(PORT), "127.0.0.1", () => console.log(JSON.stringify(server.address())));
