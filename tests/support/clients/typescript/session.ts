// A session over the generated types: begin, send a message, stream the next turn, list the messages.
import createClient from "openapi-fetch";

import type { components, paths } from "./schema.js";

type Turn = components["schemas"]["TurnAnswer"];
type Frame = paths["/api/sessions/{sessionId}/messages"]["post"]["responses"][200]["content"]["text/event-stream"];

const [baseUrl, key] = process.argv.slice(2);
if (baseUrl === undefined || key === undefined) throw new Error("the URL of a server or a key is missing");

const headers = { Authorization: `Bearer ${key}` };

// One route answers JSON or a stream of events: a client is of one media type.
const client = createClient<paths, "application/json">({ baseUrl, headers });
const streams = createClient<paths, "text/event-stream">({ baseUrl, headers });

function answered<T>(result: { data?: T; error?: components["schemas"]["ErrorAnswer"]; response: Response }): T {
  if (result.data !== undefined) return result.data;
  const details = result.error?.error.details.map((each) => `${each.field ?? ""} ${each.message}`) ?? [];
  throw new Error([result.error?.error.message ?? result.response.statusText, ...details].join("; "));
}

async function* frames(body: ReadableStream<Uint8Array>): AsyncGenerator<Frame> {
  let text = "";
  const decoder = new TextDecoder();
  for await (const piece of body) {
    text += decoder.decode(piece, { stream: true });
    const blocks = text.split("\n\n");
    text = blocks.pop() ?? "";
    for (const block of blocks) {
      const fields = new Map<string, string>();
      for (const line of block.split("\n")) {
        const colon = line.indexOf(": ");
        fields.set(line.slice(0, colon), line.slice(colon + 2));
      }
      const [event, data] = [fields.get("event"), fields.get("data")];
      if (event !== undefined && data !== undefined) yield { event, data };
    }
  }
}

const begun = answered(await client.POST("/api/sessions", { body: { userId: "ana", scriptId: "visit" } }));
const path = { sessionId: begun.sessionId };
const first = answered(
  await client.POST("/api/sessions/{sessionId}/messages", { params: { path }, body: { content: "Ana" } }),
);

const stream = await streams.POST("/api/sessions/{sessionId}/messages", {
  params: { path, header: { Accept: "text/event-stream" } },
  body: { content: "30" },
  parseAs: "stream",
});
if (stream.data === undefined || stream.data === null) throw new Error("no stream");
const events: string[] = [];
let last: Turn | undefined;
for await (const frame of frames(stream.data)) {
  events.push(frame.event);
  if (frame.event === "turn") last = JSON.parse(frame.data) as Turn;
}

const fork = answered(await client.POST("/api/sessions/{sessionId}/fork", { params: { path } })); // without a body
const found = answered(await client.POST("/api/memory/search", { body: { userId: "ana", text: "Ana" } }));

const listed = answered(await client.GET("/api/sessions/{sessionId}/messages", { params: { path } }));
const refused = await client.POST("/api/sessions", { body: { userId: "", scriptId: "visit" } });

console.log(
  JSON.stringify({
    turns: [begun.turn, first.turn, last?.turn],
    waits: [begun.wait?.kind, first.wait?.kind, last?.wait?.kind],
    events,
    fork: fork.messages.map((message) => message.role),
    found: found.chains.length > 0,
    roles: listed.data.map((message) => message.role),
    contents: listed.data.map((message) => message.content),
    refused: refused.error?.error.code,
  }),
);
