// node search.mjs < {options, sections} > {options, index}
import { readFileSync } from "node:fs";
import MiniSearch from "minisearch";

const { options, sections } = JSON.parse(readFileSync(0, "utf8"));
const index = new MiniSearch(options);
index.addAll(sections);
process.stdout.write(JSON.stringify({ options, index }));
