// Python in a worker of its own, so that a page never waits for it: our library, the standard library, no server.
import { unpack } from "./live-unpack.js";

const engine = new URL(`vendor/engine-${new URL(import.meta.url).search.slice(1)}/`, import.meta.url).href;
let answer;

const absent = (name) => () => { throw new Error(`${name} did not arrive`); };
let come = 0, told = 0;

async function file(name) { // the page is told how much has come
  const got = await fetch(engine + name).catch(absent(name));
  if (!got.ok) absent(name)();
  const counter = new TransformStream({
    transform(chunk, to) {
      come += chunk.length;
      to.enqueue(chunk);
      if (performance.now() > told + 100) { told = performance.now(); postMessage({ come }); }
    },
  });
  return new Response(got.body.pipeThrough(counter), { headers: got.headers });
}

async function unzipped(name) {
  const bytes = await (await file(name)).arrayBuffer();
  const head = new Uint8Array(bytes.slice(0, 2));
  if (head[0] !== 0x1f || head[1] !== 0x8b) return bytes; // a server that unpacks by itself
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
}

// The memory is large, and unpacking it takes a third of a start: a browser that lets us keeps it unpacked.
const kept = { store: `mlsysim-engine-${engine.slice(-13, -1)}`, name: engine + "start.raw" };

async function memory() {
  const held = await self.caches?.match(kept.name).catch(() => {});
  if (held) return held.arrayBuffer();
  return unzipped("start.bin").then((bytes) => (bytes.byteLength ? (kept.bytes = bytes) : undefined)); // a course package has none
}

async function keep() {
  if (!kept.bytes || !self.caches) return;
  const bytes = new Response(kept.bytes);
  kept.bytes = undefined;
  await (await caches.open(kept.store)).put(kept.name, bytes);
}

async function compiled(name) {
  const got = await file(name), again = got.clone();
  return WebAssembly.compileStreaming(got).catch(async () => WebAssembly.compile(await again.arrayBuffer())); // another MIME type
}

// What takes long goes side by side: other threads compile the interpreter while this one unpacks its memory.
async function start() {
  const wasm = compiled("pyodide.asm.wasm"), parts = [memory(), unzipped("library.bin")];
  const texts = Promise.all([file("pyodide-lock.json").then((r) => r.json()), file("python_stdlib.zip").then((r) => r.blob())]);
  const [{ loadPyodide }, { default: createPyodideModule }, [lockFileContents, library_]] = await Promise.all([...["pyodide.js", "pyodide.asm.js"].map((name) => import(engine + name).catch(absent(name))), texts]);
  const stdLibURL = URL.createObjectURL(library_), streaming = WebAssembly.instantiateStreaming, ask = fetch;
  // The loader asks for its parts by itself; it gets those that are on their way.
  self.fetch = (what, ...more) => (String(what).endsWith("/pyodide.asm.wasm") ? Promise.resolve(new Response()) : ask(what, ...more));
  WebAssembly.instantiateStreaming = async (_, imports) => {
    const module = await wasm;
    return { module, instance: await WebAssembly.instantiate(module, imports) };
  };
  const load = (more) => loadPyodide({ indexURL: engine, createPyodideModule, lockFileContents, stdLibURL, ...more });
  const bytes = await parts[0].catch(() => undefined); // without its memory it starts anew, and imports all by itself
  const loaded = bytes ? load({ _loadSnapshot: bytes }).catch(() => load({})) : load({});
  const py = await Promise.race([loaded, wasm.then(() => loaded)]); // the loader waits for ever for what does not arrive
  self.fetch = ask;
  WebAssembly.instantiateStreaming = streaming;
  URL.revokeObjectURL(stdLibURL);
  unpack(py.FS, new Uint8Array(await parts[1]));
  answer = py.runPython("import sys\nif '/lib/site' not in sys.path: sys.path.insert(0, '/lib/site')\nfrom mlsysim.course.live import answer\nanswer");
}

const started = start().then(() => { postMessage({ ready: true }); setTimeout(() => keep().catch(() => {}), 3000); }, (error) => postMessage({ failed: error.message ?? String(error) }));

onmessage = async ({ data }) => {
  await started;
  if (answer) postMessage({ id: data.id, made: answer(JSON.stringify({ do: data.do, with: data.with })) });
};
