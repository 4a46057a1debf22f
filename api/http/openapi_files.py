"""OpenAPI descriptions of routes that respond with files."""

from dataclasses import dataclass

from litestar.openapi.spec import OpenAPIMediaType, OpenAPIResponse, OpenAPIType, Operation, Schema


def file_operation(*media_types: str) -> type[Operation]:
    """Return an operation whose response is a file of one of these media types."""
    content = {each: OpenAPIMediaType(Schema(type=OpenAPIType.STRING, content_media_type=each)) for each in media_types}

    @dataclass
    class Answering(Operation):
        def __post_init__(self) -> None:
            if self.responses is not None:
                self.responses["200"] = OpenAPIResponse("The file.", content=content)

    return Answering
