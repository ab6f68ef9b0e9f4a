// The service worker. It caches the page and its models, so that they work without a connection. Only
// an exported page uses it. The export fills in the version and the files (calcgpt/export/web.py).

/** @typedef {ServiceWorkerGlobalScope & {VERSION: string, FILES: string[]}} Scope */

const scope = /** @type {Scope} */ (/** @type {unknown} */ (globalThis));
const PREFIX = `calcgpt ${scope.registration.scope} `; // all pages of a host share their caches
const CACHE = `${PREFIX}${scope.VERSION}`;

scope.addEventListener("install", (event) => {
  const requests = scope.FILES.map((file) => fresh(new Request(file)));
  const cached = caches.open(CACHE).then((cache) => cache.addAll(requests));
  event.waitUntil(cached.then(() => scope.skipWaiting()));
});

scope.addEventListener("activate", (event) => {
  const deleteOldCaches = async () => {
    const names = await caches.keys();
    const old = names.filter((name) => name.startsWith(PREFIX) && name !== CACHE);
    await Promise.all(old.map((name) => caches.delete(name)));
    await scope.clients.claim();
  };
  event.waitUntil(deleteOldCaches());
});

scope.addEventListener("fetch", (event) => {
  const { origin } = new URL(event.request.url);
  if (event.request.method !== "GET" || origin !== location.origin) return;
  event.respondWith(respond(event.request));
});

/** Returns a request that asks the host. Otherwise the browser could return what it kept of an earlier
 * version.
 * @param {Request} request */
function fresh(request) {
  return request.mode === "navigate" ? request : new Request(request, { cache: "no-cache" });
}

/** Returns the cached response, or else the response of the host, which it adds to the cache.
 * @param {Request} request */
async function respond(request) {
  const cache = await caches.open(CACHE);
  const cached = await cache.match(request, { ignoreSearch: true });
  if (cached) return cached;
  const response = await fetch(fresh(request));
  if (response.ok) await cache.put(request, response.clone()).catch(() => {}); // there may be no room
  return response;
}
