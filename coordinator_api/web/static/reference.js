// The page /docs. Without a validator: Swagger UI would ask a foreign host for its badge.
const place = document.getElementById("reference");

SwaggerUIBundle({
  url: place.dataset.openapi,
  domNode: place,
  deepLinking: true,
  validatorUrl: null,
});
