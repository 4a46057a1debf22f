"""The package `cuebook`: what applications may import."""

import subprocess
import sys
from typing import get_type_hints

import pytest

import cuebook


@pytest.mark.parametrize("name", cuebook.__all__)
def test_each_public_name_can_be_imported(name: str) -> None:
    found = getattr(cuebook, name)
    assert found.__doc__
    if not isinstance(found, type):
        assert get_type_hints(found)  # typed, and all its types can be resolved


def test_dir_lists_the_public_names() -> None:
    assert dir(cuebook) == sorted(cuebook.__all__)


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="Klient"):
        _ = cuebook.Klient


def test_importing_the_package_loads_no_other() -> None:
    program = "import sys, cuebook; print([name for name in ('api', 'runtime', 'litestar') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"
