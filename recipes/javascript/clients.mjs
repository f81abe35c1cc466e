// JavaScript clients of reranking services, unmodified. Prints what each returns, as JSON.
import { createCohere } from "@ai-sdk/cohere";
import { CohereRerank } from "@langchain/cohere";
import { rerank } from "ai";
import { CohereClient, CohereClientV2 } from "cohere-ai";

const [url, token, ...documents] = process.argv.slice(2);
const call = { model: "faq", query: "q", documents };
const found = {};
const listed = ({ id, results }) => ({ id, indices: results.map((one) => one.index) });

found.cohere = listed(await new CohereClientV2({ token, environment: url }).rerank({ ...call, topN: 2 }));
found.cohere1 = listed(await new CohereClient({ token, environment: url }).rerank({ ...call, topN: 2 }));

const model = createCohere({ apiKey: token, baseURL: `${url}/v2` }).reranking("faq");
const reply = await rerank({ model, query: "q", documents, topN: 2 });
found.ai = { id: reply.response.id, indices: reply.ranking.map((one) => one.originalIndex) };

const client = new CohereClient({ token, environment: url });
const compressor = new CohereRerank({ client, model: "faq", topN: 2 });
const best = await compressor.rerank(documents, "q");
found.langchain = { id: null, indices: best.map((one) => one.index) };

console.log(JSON.stringify(found));
