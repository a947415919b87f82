// SPDX-License-Identifier: Apache-2.0
//
// schemas: prints the JSON schemas of the protocol's revisions, as one object by revision.  The official
// conformance suite carries them in its one bundled file; no other package has them.  So they are found
// in its text: an object literal that begins with $schema and the definitions, whose name stands in a
// table of revisions.
import { readFileSync } from "node:fs";
import vm from "node:vm";

const MODERN = "2026-07-28"; // the one whose place in the table is computed
const file = `${process.env.MCP_NPM}/node_modules/@modelcontextprotocol/conformance/dist/index.js`;
const bundle = readFileSync(file, "utf8");

// The end of the literal that begins at `start`: braces outside of strings, balanced.
function literal(start) {
    let depth = 0;
    for (let i = start; i < bundle.length; i++) {
        const c = bundle[i];
        if (c === "`" || c === '"' || c === "'") {
            for (i++; bundle[i] !== c; i++) if (bundle[i] === "\\") i++;
        } else if (c === "{") {
            depth++;
        } else if (c === "}" && --depth === 0) {
            return bundle.slice(start, i + 1);
        }
    }
    throw new Error(`the schema at ${start} has no end`);
}

const byName = new Map();
for (const found of bundle.matchAll(/([\w$]+)=\{\$schema:`[^`]*`,(?:definitions|\$defs):\{/g)) {
    const start = found.index + found[1].length + 1;
    byName.set(found[1], vm.runInNewContext(`(${literal(start)})`));
}

const schemas = {};
for (const [, revision, name] of bundle.matchAll(/"(\d{4}-\d\d-\d\d)":([\w$]+)/g)) {
    if (byName.has(name)) schemas[revision] = byName.get(name);
}
for (const [, name] of bundle.matchAll(/\[[\w$]+\]:([\w$]+)\}/g)) {
    if (byName.has(name)) schemas[MODERN] = byName.get(name);
}
process.stdout.write(JSON.stringify(schemas));
