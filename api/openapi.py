"""How the API describes itself at `/schema`."""

from importlib.metadata import version

from litestar.openapi.config import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin, ScalarRenderPlugin
from litestar.openapi.spec import Components, SecurityScheme

_KEYS_DESCRIBED = Components(
    security_schemes={
        "key": SecurityScheme(
            type="http",
            scheme="bearer",
            description="A key of `cuebook keys create`, or a token (JWT) of the issuer in the server's settings. "
            "A server on its own machine asks for one as soon as there is one.",
        ),
        "apiKey": SecurityScheme(type="apiKey", name="X-API-Key", security_scheme_in="header", description="The same."),
    }
)


def description() -> OpenAPIConfig:
    """The description of all routes."""
    return OpenAPIConfig(
        title="Cuebook",
        version=version("cuebook"),
        path="/schema",
        render_plugins=[JsonRenderPlugin(), ScalarRenderPlugin()],
        components=_KEYS_DESCRIBED,
    )
