// node snapshot.mjs ENGINE_FOLDER PACK OUT PRELUDE: Python's memory after its imports, so that a page starts from there.
import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";
import zlib from "node:zlib";

const [engine, pack, out, prelude] = process.argv.slice(2).map((p) => path.resolve(p));
const { loadPyodide } = await import(pathToFileURL(path.join(engine, "pyodide.mjs")));
const { unpack } = await import(pathToFileURL(path.join(engine, "unpack.mjs")));
const py = await loadPyodide({ indexURL: engine + "/", _makeSnapshot: true });
unpack(py.FS, new Uint8Array(zlib.gunzipSync(fs.readFileSync(pack))));
py.runPython(fs.readFileSync(prelude, "utf-8"));
fs.writeFileSync(out, zlib.gzipSync(py.makeMemorySnapshot(), { level: 9 }));
process.exit(0);
