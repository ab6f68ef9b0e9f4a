// The documentation: Swagger UI over the service's own OpenAPI document.
/** @type {any} */ (window).SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#swagger-ui",
  deepLinking: true,
  displayRequestDuration: true,
  validatorUrl: null, // no other host
});
