// The page /docs. The validator is off, because Swagger UI would load its badge from a foreign host.
const place = document.getElementById("reference");

SwaggerUIBundle({
  url: place.dataset.openapi,
  domNode: place,
  deepLinking: true,
  validatorUrl: null,
});
