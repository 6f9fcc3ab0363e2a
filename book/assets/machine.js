// Measures the reader's machine: a copy, a triad and a product in WebAssembly on one thread of the processor, and the same in
// WebGPU where the browser has it. This file is the page's script and, in a worker, the measurement; the library judges the rates.
const REPEATS = 15, AT_LEAST = 40, WARM = 300, PATIENCE = 6000; // ms: of a repeat, before the first, of one measurement
const MiB = 2 ** 20;
const filled = (n) => { const made = new Float32Array(n); for (let i = 0; i < n; i++) made[i] = ((i * 7) % 13) / 13; return made; };

// Rates of a pass: as many in a repeat as fill its time, since a browser's clock is coarse.
async function rates(pass, work) {
  let many = 1, took = 0;
  for (const begin = performance.now(); performance.now() < begin + WARM || took < AT_LEAST;) { // until compiled and long enough
    const before = performance.now();
    await pass(many);
    took = performance.now() - before;
    if (took < AT_LEAST) many = Math.ceil(many * Math.min(8, 1.2 * AT_LEAST / Math.max(took, 1)));
  }
  const found = [];
  for (const begin = performance.now(); found.length < REPEATS && (found.length < 3 || performance.now() < begin + PATIENCE);) {
    const before = performance.now();
    await pass(many);
    found.push((many * work * 1000) / (performance.now() - before));
  }
  return found;
}

// ---- WebAssembly, assembled by hand: three functions over one memory

const uleb = (n) => { const out = []; do { out.push((n & 127) | (n > 127 ? 128 : 0)); n >>>= 7; } while (n); return out; };
const list = (...items) => [...uleb(items.length), ...items.flat()];
const section = (id, body) => [id, ...uleb(body.length), ...body];
const name = (text) => [...uleb(text.length), ...new TextEncoder().encode(text)];
const I32 = 0x7f, V128 = 0x7b;
const get = (i) => [0x20, i], set = (i) => [0x21, i], int = (n) => [0x41, ...(n < 64 ? [n] : [(n & 127) | 128, n >> 7])];
const add = (i, amount) => [...get(i), ...amount, 0x6a, ...set(i)];
const less = (i) => [...get(i), ...int(1), 0x6b, 0x22, i]; // i - 1, kept in i
const simd = (op) => [0xfd, ...uleb(op)];
const load = (i, at) => [...get(i), ...simd(0), 4, ...uleb(at)], splat = (i, at) => [...get(i), ...simd(9), 2, ...uleb(at)];
const store = (i, at, value) => [...get(i), ...value, ...simd(11), 4, ...uleb(at)];
const plus = simd(0xe4), times = simd(0xe6);
const loop = (...body) => [0x03, 0x40, ...body.flat(Infinity), 0x0d, 0, 0x0b]; // again while what the body leaves is not 0
const STEP = 64, lanes = [0, 16, 32, 48];

// copy(to, from, end of from)
const copy = loop(lanes.map((at) => store(0, at, load(1, at))), add(0, int(STEP)), add(1, int(STEP)), get(1), get(2), 0x49);
// triad(to, b, c, end of b, local: three times three): to = b + 3 c
const triad = [
  ...int(3), 0xb2, ...simd(0x13), ...set(4),
  ...loop(lanes.map((at) => store(0, at, [...load(1, at), ...load(2, at), ...get(4), ...times, ...plus])), [0, 1, 2].map((i) => add(i, int(STEP))), get(1), get(3), 0x49),
];
// product(to, a, b, bytes of a panel of a, panels of a, panels of b): panels of 4 rows of a and of 8 columns of b, tiles of 4 x 8
function product(fused) {
  const [A, END, B, J] = [6, 7, 8, 9], WIDE = 10, ROW = 12, SUM = 13;
  const sums = [...Array(8).keys()].map((i) => SUM + i);
  const one = (row) => [...splat(A, 4 * row), ...set(ROW), ...[0, 1].flatMap((half) => (fused
    ? [...get(ROW), ...get(WIDE + half), ...get(SUM + 2 * row + half), ...simd(0x105)]
    : [...get(ROW), ...get(WIDE + half), ...times, ...get(SUM + 2 * row + half), ...plus]).concat(set(SUM + 2 * row + half)))];
  const inner = loop(load(B, 0), set(WIDE), load(B, 16), set(WIDE + 1), [0, 1, 2, 3].map(one), add(B, int(32)), add(A, int(16)), get(A), get(END), 0x49);
  const tile = loop(get(1), set(A), get(1), get(3), 0x6a, set(END), sums.map((s) => [...simd(12), ...Array(16).fill(0), ...set(s)]), inner,
    sums.map((s, i) => store(0, 16 * i, get(s))), add(0, int(128)), less(J));
  return loop(get(2), set(B), get(5), set(J), tile, get(END), set(1), less(4));
}
function program(fused) {
  const body = (locals, code) => { const made = [...list(...locals), ...code, 0x0b]; return [...uleb(made.length), ...made]; };
  const taking = (n) => [0x60, ...list(...Array(n).fill(I32)), 0];
  return new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0,
    ...section(1, list(taking(3), taking(4), taking(6))),
    ...section(2, list([...name("m"), ...name("m"), 2, 0, 1])),
    ...section(3, list(0, 1, 2)),
    ...section(7, list([...name("copy"), 0, 0], [...name("triad"), 0, 1], [...name("product"), 0, 2])),
    ...section(10, list(body([], copy), body([[1, V128]], triad), body([[4, I32], [11, V128]], product(fused)))),
  ]);
}

const SIDE = 256; // of the matrices, which fit into a second cache together
async function processor() {
  const fused = WebAssembly.validate(program(true)), code = program(fused); // a fused multiply-add came after the vectors
  if (!WebAssembly.validate(code)) return { why: "This browser's WebAssembly has no vectors, so it cannot show what the processor does." };
  const bytes = 64 * MiB, many = bytes / 4;
  let memory;
  try { memory = new WebAssembly.Memory({ initial: (3 * bytes) / 65536 + 16 }); } catch { return { why: `This browser lends no ${(3 * bytes) / MiB} MiB, and smaller arrays would stay in a cache.` }; }
  const { copy, triad, product } = (await WebAssembly.instantiate(code, { m: { m: memory } })).instance.exports;
  const all = new Float32Array(memory.buffer), [a, b, c] = [0, bytes, 2 * bytes];
  all.set(filled(many), many);
  all.set(filled(many), 2 * many);
  const repeat = (work) => (n) => { for (let i = 0; i < n; i++) work(); };
  const found = { kind: "cpu" };
  found.copy = await rates(repeat(() => copy(a, b, b + bytes)), 2 * bytes);
  found.triad = await rates(repeat(() => triad(a, b, c, b + bytes)), 3 * bytes);
  const right = Math.abs(all[many - 5] - (all[2 * many - 5] + 3 * all[3 * many - 5])) < 1e-5;
  const panels = [SIDE / 4, SIDE / 8];
  found.product = await rates(repeat(() => product(a, b, c, 16 * SIDE, ...panels)), 2 * SIDE ** 3);
  let sum = 0; // of row 5 and column 10: the second row of the second panel of a, the third column of the second panel of b
  for (let i = 0; i < SIDE; i++) sum += all[many + 4 * SIDE + 4 * i + 1] * all[2 * many + 8 * SIDE + 8 * i + 2];
  const got = all[(SIDE / 8 + 1) * 32 + 8 + 2];
  if (!right || !(Math.abs(got - sum) < 1e-3 * sum)) return { why: "The processor's passes computed something else than they should, so their times are not shown." };
  found.notes = `Arrays of ${bytes / MiB} MiB: a last cache that holds them shows its own bandwidth. Vectors of 128 bits${fused ? "" : " without fused multiply-add"}, half or a quarter of what many processors have, on one of ${navigator.hardwareConcurrency ?? "several"} threads: a lower roof than the machine's.`;
  return found;
}

// ---- WebGPU

const TILE = 64;
const SHADERS = { copy: "to[id.x] = b[id.x];", triad: "to[id.x] = b[id.x] + 3.0 * c[id.x];" };
const product4 = `
@group(0) @binding(0) var<storage, read_write> to: array<f32>;
@group(0) @binding(1) var<storage, read> b: array<f32>;
@group(0) @binding(2) var<storage, read> c: array<f32>;
override n: u32;
var<workgroup> left: array<f32, ${16 * TILE}>;
var<workgroup> right: array<vec4f, ${4 * TILE}>;
@compute @workgroup_size(16, 16) fn main(@builtin(workgroup_id) w: vec3u, @builtin(local_invocation_id) l: vec3u) {
  var sums: array<vec4f, 4>;
  let t = l.y * 16u + l.x;
  for (var k = 0u; k < n; k += 16u) {
    for (var i = t; i < ${16 * TILE}u; i += 256u) { left[i] = b[(w.y * ${TILE}u + i / 16u) * n + k + i % 16u]; }
    let at = (k + t / 16u) * n + w.x * ${TILE}u + t % 16u * 4u;
    right[t] = vec4f(c[at], c[at + 1u], c[at + 2u], c[at + 3u]);
    workgroupBarrier();
    for (var i = 0u; i < 16u; i++) {
      let r = right[i * 16u + l.x];
      for (var row = 0u; row < 4u; row++) { sums[row] += left[(l.y * 4u + row) * 16u + i] * r; }
    }
    workgroupBarrier();
  }
  for (var row = 0u; row < 4u; row++) { for (var i = 0u; i < 4u; i++) { to[(w.y * ${TILE}u + l.y * 4u + row) * n + w.x * ${TILE}u + l.x * 4u + i] = sums[row][i]; } }
}`;
const pass4 = (line) => `
@group(0) @binding(0) var<storage, read_write> to: array<vec4f>;
@group(0) @binding(1) var<storage, read> b: array<vec4f>;
@group(0) @binding(2) var<storage, read> c: array<vec4f>;
@compute @workgroup_size(128) fn main(@builtin(global_invocation_id) id: vec3u) { ${line} }`;

async function graphics() {
  const adapter = await navigator.gpu?.requestAdapter({ powerPreference: "high-performance" }).catch(() => null);
  if (!adapter) return { why: navigator.gpu ? "WebGPU finds no graphics processor here, so only the processor is shown." : "This browser has no WebGPU (or shows it to pages with https alone), so only the processor is shown." };
  const bytes = 65535 * 128 * 16; // as many groups as one call may start; every WebGPU lends 128 MiB
  const device = await adapter.requestDevice();
  let wrong = "";
  device.addEventListener("uncapturederror", ({ error }) => { wrong = error.message; });
  device.lost.then(({ message }) => { wrong ||= message || "the device was lost"; });
  const buffers = [0, 1, 2].map(() => device.createBuffer({ size: bytes, usage: GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_DST | GPUBufferUsage.COPY_SRC }));
  for (const buffer of buffers.slice(1)) device.queue.writeBuffer(buffer, 0, filled(bytes / 4));
  const layout = device.createBindGroupLayout({ entries: ["storage", "read-only-storage", "read-only-storage"].map((type, binding) => ({ binding, visibility: GPUShaderStage.COMPUTE, buffer: { type } })) });
  const group = device.createBindGroup({ layout, entries: buffers.map((buffer, binding) => ({ binding, resource: { buffer } })) });
  const made = (code, constants) => device.createComputePipelineAsync({ layout: device.createPipelineLayout({ bindGroupLayouts: [layout] }), compute: { module: device.createShaderModule({ code }), entryPoint: "main", constants } });
  const run = (pipeline, x, y) => async (many) => {
    const encoder = device.createCommandEncoder(), pass = encoder.beginComputePass();
    pass.setPipeline(pipeline);
    pass.setBindGroup(0, group);
    for (let i = 0; i < many; i++) pass.dispatchWorkgroups(x, y);
    pass.end();
    device.queue.submit([encoder.finish()]);
    await device.queue.onSubmittedWorkDone();
    if (wrong) throw new Error(wrong);
  };
  const found = { kind: "gpu" };
  try {
    for (const [what, line] of Object.entries(SHADERS)) found[what] = await rates(run(await made(pass4(line)), 65535, 1), (what === "copy" ? 2 : 3) * bytes);
    let n = 256, took = 0; // larger until one product takes a while: small ones would leave a large device idle
    for (; ; n *= 2) {
      const once = run(await made(product4, { n }), n / TILE, n / TILE);
      await once(1);
      const before = performance.now();
      await once(1);
      took = performance.now() - before;
      if (took > 20 || n >= 4096) { found.product = await rates(once, 2 * n ** 3); break; }
    }
    const back = device.createBuffer({ size: 16, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST }), encoder = device.createCommandEncoder();
    encoder.copyBufferToBuffer(buffers[0], 4 * (5 * n + 8), back, 0, 16);
    device.queue.submit([encoder.finish()]);
    await back.mapAsync(GPUMapMode.READ);
    const entry = (i) => ((i * 7) % 13) / 13;
    let sum = 0; // of row 5 and column 10
    for (let k = 0; k < n; k++) sum += entry(5 * n + k) * entry(k * n + 10);
    if (!(Math.abs(new Float32Array(back.getMappedRange())[2] - sum) < 1e-3 * sum)) return { why: "The graphics processor's product came out wrong, so its times are not shown." };
    const { vendor, architecture, description } = adapter.info ?? {};
    const software = adapter.info?.isFallbackAdapter || adapter.isFallbackAdapter || /swiftshader|llvmpipe/i.test([vendor, architecture, description].join(" "));
    found.notes = `${[...new Set([vendor, architecture, description].filter(Boolean))].join(" ") || "A device that the browser does not name"}${software ? ": a software adapter, so the processor plays the graphics processor" : ""}. Arrays of ${Math.round(bytes / MiB)} MiB, products of ${n} x ${n} with a simple shader, no matrix units: its peak is the shader's and not the device's.`;
    return found;
  } catch (error) {
    return { why: `WebGPU gave up (${error.message.split("\n")[0]}), so only the processor is shown.` };
  } finally { device.destroy(); }
}

// ---- the worker, and the page

if (typeof document === "undefined") {
  (async () => {
    for (const measure of [processor, graphics]) postMessage(await measure().catch((error) => ({ why: error.message })));
    postMessage({ done: true });
  })();
} else {
  const root = document.querySelector("[data-machine]"), [start, save] = root.querySelectorAll("button"), said = root.querySelector(".live-said"), shown = root.querySelector(".live-shown");
  let file;
  start.disabled = typeof WebAssembly === "undefined";
  start.addEventListener("click", () => {
    const worker = new Worker(import.meta.url, { type: "module" }), runs = [], whys = [];
    const end = (text, wrong = false) => { worker.terminate(); start.disabled = false; root.dataset.state = wrong ? "error" : "ready"; said.textContent = text; said.classList.toggle("live-wrong", wrong); };
    start.disabled = true;
    root.dataset.state = "loading";
    said.textContent = "Measuring the processor; other work on this machine, and a battery, change what comes out …";
    worker.onerror = (event) => end(event.message || "The measurement did not start.", true);
    worker.onmessage = async ({ data }) => {
      if (data.why) whys.push(data.why);
      if (data.kind) { runs.push(data); said.textContent = "Measuring the graphics processor …"; }
      if (!data.done) return;
      try {
        if (!runs.length) throw new Error(whys.join(" "));
        window.mlsysimLive.starting(root, "Drawing …"); // Python starts only now: it would have shared the processor
        const found = await window.mlsysimLive.ask("machine", runs);
        if (found.error) throw new Error(found.error);
        root.measured = runs;
        shown.innerHTML = found.html;
        file = found.toml;
        save.hidden = false;
        end(whys.join(" "));
      } catch (error) { end(error.message, true); }
    };
  });
  save.addEventListener("click", () => {
    const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(new Blob([file], { type: "application/toml" })), download: "machine.toml" });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  });
}
