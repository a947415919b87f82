// SPDX-License-Identifier: Apache-2.0
//
// hook: lets the scripts of this folder import the packages in build/npm by their plain names; given to
// node with --import.  MCP_NPM is the folder that holds package.json and node_modules.
import { registerHooks } from "node:module";
import { pathToFileURL } from "node:url";

const home = pathToFileURL(`${process.env.MCP_NPM}/package.json`).href;

registerHooks({
    resolve(name, context, next) {
        const bare = !/^(\.|\/|node:|file:|data:)/.test(name);
        const ours = context.parentURL?.startsWith(new URL(".", import.meta.url).href);
        return next(name, bare && ours ? { ...context, parentURL: home } : context);
    },
});
