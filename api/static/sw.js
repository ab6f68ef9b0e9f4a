// Keeps the page and its models in the browser, so that both work without a connection. Only an
// exported page uses it; the export fills in the version and the files (calcgpt/export/web.py).

/** @typedef {ServiceWorkerGlobalScope & {VERSION: string, FILES: string[]}} Scope */

const scope = /** @type {Scope} */ (/** @type {unknown} */ (globalThis));
const CACHE = `calcgpt-${scope.VERSION}`;

scope.addEventListener("install", (event) => {
  const kept = caches.open(CACHE).then((cache) => cache.addAll(scope.FILES));
  event.waitUntil(kept.then(() => scope.skipWaiting()));
});

scope.addEventListener("activate", (event) => {
  const dropOthers = async () => {
    const names = await caches.keys();
    const old = names.filter((name) => name.startsWith("calcgpt-") && name !== CACHE);
    await Promise.all(old.map((name) => caches.delete(name)));
    await scope.clients.claim();
  };
  event.waitUntil(dropOthers());
});

scope.addEventListener("fetch", (event) => {
  const { origin } = new URL(event.request.url);
  if (event.request.method !== "GET" || origin !== location.origin) return;
  event.respondWith(answer(event.request));
});

/** From the cache, or else from the host: what it sends is kept.
 * @param {Request} request */
async function answer(request) {
  const cache = await caches.open(CACHE);
  const kept = await cache.match(request, { ignoreSearch: true });
  if (kept) return kept;
  const response = await fetch(request);
  if (response.ok) await cache.put(request, response.clone());
  return response;
}
