"""The texts of the code that pages show: docstrings of classes, and the texts below their fields."""

import inspect
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Self

import griffe
import msgspec
from msgspec import Struct


def one_line(text: str) -> str:
    """Return a text as it fits into a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def field_texts(of: type) -> dict[str, str]:
    """Return the texts below the fields of a class by field, each in one line."""
    file = Path(inspect.getfile(of))
    return _texts(griffe.visit(file.stem, filepath=file, code=file.read_text("utf-8"))[of.__name__])


def _texts(found: griffe.Object) -> dict[str, str]:
    named = {name: member.docstring for name, member in found.members.items() if member.is_attribute}
    return {name: one_line(text.value) for name, text in named.items() if text is not None}


def described_fields(package: ModuleType) -> Mapping[str, tuple[str, Mapping[str, str]]]:
    """Return the text of each class of a package, and the texts of its fields, also inherited, by their JSON names."""
    classes: dict[str, griffe.Class] = {}
    for file in sorted(Path(package.__path__[0]).glob("*.py")):
        classes |= griffe.visit(file.stem, filepath=file, code=file.read_text("utf-8")).classes
    return {
        name: (found.docstring.value if found.docstring else "", _inherited(found, classes))
        for name, found in classes.items()
    }


def _inherited(found: griffe.Class, classes: Mapping[str, griffe.Class]) -> dict[str, str]:
    below = [classes[str(base)] for base in found.bases if str(base) in classes]
    texts = {name: text for each in below for name, text in _inherited(each, classes).items()}
    return texts | {camel(name): text for name, text in _texts(found).items()}


class FieldMeanings(Struct):
    """The meanings of fields of the API that have no text in the code: of a name, and of a field of one object."""

    names: dict[str, str]
    objects: dict[str, str]

    @classmethod
    def load(cls) -> Self:
        """Read `field_meanings.yaml`."""
        return msgspec.yaml.decode(Path(__file__).with_name("field_meanings.yaml").read_bytes(), type=cls)

    def of(self, owner: str, field: str) -> str:
        """Return the meaning of a field. Raises KeyError for one that has none."""
        return self.objects.get(f"{owner}.{field}") or self.names[field]


def camel(name: str) -> str:
    """Return a field's name as JSON has it."""
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)
