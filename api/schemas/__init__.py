"""Request and response bodies: the documented types of the API, in camelCase."""
