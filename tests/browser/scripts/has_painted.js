() => performance.getEntriesByName('first-contentful-paint').length > 0
