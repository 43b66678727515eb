// Evaluates flags with OpenFeature's SDKs: `node evaluate.js server|web URL TOKEN`, with steps as JSON on standard input,
// each [kind, flag, default, context]. Prints what the SDK says of each, as JSON.

import { readFileSync } from 'node:fs';
import * as server from '@openfeature/server-sdk';
import * as web from '@openfeature/web-sdk';
import { OFREPProvider } from '@openfeature/ofrep-provider';
import { OFREPWebProvider } from '@openfeature/ofrep-web-provider';

const [side, baseUrl, token] = process.argv.slice(2);
const headers = token ? [['Authorization', `Bearer ${token}`]] : [];
const steps = JSON.parse(readFileSync(0, 'utf8'));
const found = [];

function ask(client, [kind, flag, otherwise, context]) {
  const name = { boolean: 'Boolean', string: 'String', integer: 'Number', float: 'Number', object: 'Object' }[kind];
  return client[`get${name}Details`](flag, otherwise, context);
}

if (side === 'server') {
  await server.OpenFeature.setProviderAndWait(new OFREPProvider({ baseUrl, headers }));
  const client = server.OpenFeature.getClient();
  for (const step of steps) found.push(await ask(client, step));
} else {
  await web.OpenFeature.setContext(steps[0][3]);
  await web.OpenFeature.setProviderAndWait(new OFREPWebProvider({ baseUrl, headers, pollInterval: 0 }));
  const client = web.OpenFeature.getClient();
  for (const step of steps) {
    await web.OpenFeature.setContext(step[3]);
    found.push(ask(client, step.slice(0, 3)));
  }
  await web.OpenFeature.close();
}
console.log(JSON.stringify(found));
