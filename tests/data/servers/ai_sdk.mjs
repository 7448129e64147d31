// A chat of the AI SDK; its argument is the port. A message "stop" makes it abort its answer.
import http from "node:http";
import { simulateReadableStream, streamText } from "ai";
import { MockLanguageModelV3 } from "ai/test";

const usage = { inputTokens: { total: 3 }, outputTokens: { total: 4 } };
const chunks = [
  { type: "stream-start", warnings: [] },
  { type: "text-start", id: "0" },
  { type: "text-delta", id: "0", delta: "Two " },
  { type: "text-delta", id: "0", delta: "swans." },
  { type: "text-end", id: "0" },
  { type: "finish", finishReason: { unified: "stop", raw: "stop" }, usage },
];
http
  .createServer((request, response) => {
    let body = "";
    request.on("data", (data) => (body += data));
    request.on("end", () => {
      const controller = new AbortController();
      const isStopped = body.includes("stop");
      const model = new MockLanguageModelV3({
        doStream: async () => ({ stream: simulateReadableStream({ chunks, chunkDelayInMs: isStopped ? 300 : 5 }) }),
      });
      if (isStopped) setTimeout(() => controller.abort(), 700);
      streamText({ model, prompt: "hi", abortSignal: controller.signal }).pipeUIMessageStreamToResponse(response);
    });
  })
  .listen(Number(process.argv[2]), "127.0.0.1");
