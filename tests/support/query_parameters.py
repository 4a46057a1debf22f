"""The query parameters of the routes, as the OpenAPI document lists them."""

from collections.abc import Mapping

from tests.support.api_client import ApiClient

METHODS = ("get", "post", "put", "patch", "delete")


class QueryParameters:
    """Selects those of several parameters that a route has; the server refuses others."""

    def __init__(self, names: Mapping[tuple[str, str], frozenset[str]]) -> None:
        self._names = names

    @classmethod
    async def of(cls, api: ApiClient) -> "QueryParameters":
        """Read the document of a server."""
        paths = (await api.read("/schema/openapi.json"))["paths"]
        return cls(
            {
                (method.upper(), path): frozenset(
                    each["name"] for each in item[method].get("parameters", ()) if each["in"] == "query"
                )
                for path, item in paths.items()
                for method in METHODS
                if method in item
            }
        )

    def select(self, method: str, path: str, sent: Mapping[str, str]) -> dict[str, str]:
        """Return the parameters that the route has."""
        return {name: value for name, value in sent.items() if name in self._names[method, path]}
