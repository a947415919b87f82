// SPDX-License-Identifier: Apache-2.0
// Counts tokens: reads a JSON list of texts, writes the list of their numbers of o200k tokens.
import fs from "node:fs";
import path from "node:path";
import { createRequire } from "node:module";

const require = createRequire(path.join(process.argv[2], "package.json"));
const { countTokens } = require("gpt-tokenizer/encoding/o200k_base");
const plain = { disallowedSpecial: new Set() };  // text that looks like a special token is text
console.log(JSON.stringify(JSON.parse(fs.readFileSync(0, "utf8")).map((text) => countTokens(text, plain))));
