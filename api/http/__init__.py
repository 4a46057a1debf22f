"""The HTTP layer: parameters, content negotiation, middleware, OpenAPI, connections and routes."""
