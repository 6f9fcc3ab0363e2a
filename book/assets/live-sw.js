// What was read stays readable without a network. The engine, whose folder bears a digest of all that it holds, comes from here
// and is fetched once; of everything else the network has the first word, so that nothing is stale after a rebuild.
const PAGES = "mlsysim-pages", ENGINE = /\/engine-([0-9a-f]{12})\//;
const home = new URL("./", location.href).href;
const other = ["lab/", "print/"].map((folder) => home + folder); // the lab keeps its own files; books are kept by whoever saves them

addEventListener("install", () => skipWaiting());
addEventListener("activate", (event) => event.waitUntil(clients.claim()));

async function store(request, got) {
  const made = ENGINE.exec(request.url)?.[1], name = made ? `mlsysim-engine-${made}` : PAGES;
  const cache = await caches.open(name);
  if (made) for (const old of await caches.keys()) if (old.startsWith("mlsysim-engine-") && old !== name) await caches.delete(old);
  if (new URL(request.url).search) for (const old of await cache.keys(request, { ignoreSearch: true })) await cache.delete(old); // an older digest
  await cache.put(request, got);
}

async function answer(event) {
  const { request } = event, named = ENGINE.test(request.url);
  const held = async () => caches.match(request.url);
  if (named) { const found = await held(); if (found) return found; }
  try {
    const got = await fetch(request);
    if (got.status === 200) event.waitUntil(store(request, got.clone()).catch(() => {})); // a full disk: not kept
    return got;
  } catch (error) {
    const found = await held();
    if (found) return found;
    throw error;
  }
}

addEventListener("fetch", (event) => {
  const { url, method, headers } = event.request;
  if (method === "GET" && url.startsWith(home) && !other.some((folder) => url.startsWith(folder)) && !headers.has("range")) event.respondWith(answer(event));
});

// The page that brought us was read before we were here: it says what it is made of.
addEventListener("message", (event) => event.waitUntil(Promise.all(event.data.keep.filter((url) => url.startsWith(home)).map(async (url) => {
  if (await caches.match(url)) return;
  const request = new Request(url), got = await fetch(request).catch(() => {});
  if (got?.status === 200) await store(request, got);
})).catch(() => {})));
