// The documentation: Swagger UI over the service's own OpenAPI document, below any path.
const spec = await (await fetch("openapi.json")).json();
const { pathname } = new URL(".", location.href);
if (pathname !== "/") spec.servers = [{ url: pathname.slice(0, -1) }];
/** @type {any} */ (window).SwaggerUIBundle({
  spec,
  dom_id: "#swagger-ui",
  deepLinking: true,
  displayRequestDuration: true,
  validatorUrl: null, // no other host
});

export {};
