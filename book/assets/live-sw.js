// What was read stays readable without a network. The engine, whose folder bears a digest of all that it holds, comes from here
// and is fetched once; of everything else the network has the first word, so that nothing is stale after a rebuild.
const PAGES = "mlsysim-pages", ENGINE = /\/vendor\/engine-([0-9a-f]{12})\//;
const home = new URL("./", location.href).href;
const other = ["lab/", "print/"].map((folder) => home + folder); // the lab keeps its own files; books are kept by whoever saves them

// A file is known by its path: what a link writes behind a question mark makes no other file of it, and dots do not climb out.
const path = (url) => { const { origin, pathname } = new URL(url, home); return origin + pathname; };
const ours = (url) => path(url).startsWith(home) && !other.some((folder) => path(url).startsWith(folder));

addEventListener("install", () => skipWaiting());
addEventListener("activate", (event) => event.waitUntil(clients.claim()));

async function store(url, got) {
  const made = ENGINE.exec(path(url))?.[1], name = made ? `mlsysim-engine-${made}` : PAGES;
  const cache = await caches.open(name);
  if (made) for (const old of await caches.keys()) if (old.startsWith("mlsysim-engine-") && old !== name) await caches.delete(old);
  await cache.put(path(url), got);
}

async function answer(event) {
  const { request } = event, named = ENGINE.test(path(request.url));
  const held = async () => caches.match(path(request.url));
  if (named) { const found = await held(); if (found) return found; }
  try {
    const got = await fetch(request);
    if (got.status === 200) event.waitUntil(store(request.url, got.clone()).catch(() => {})); // a full disk: not kept
    return got;
  } catch (error) {
    const found = await held();
    if (found) return found;
    throw error;
  }
}

addEventListener("fetch", (event) => {
  const { url, method, headers } = event.request;
  if (method === "GET" && ours(url) && !headers.has("range")) event.respondWith(answer(event));
});

// The page that brought us was read before we were here: it says what it is made of.
addEventListener("message", (event) => event.waitUntil(Promise.all(event.data.keep.filter(ours).map(async (url) => {
  if (await caches.match(path(url))) return;
  const got = await fetch(url).catch(() => {});
  if (got?.status === 200) await store(url, got);
})).catch(() => {})));
