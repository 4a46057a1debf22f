"""`make test` needs the packages of the extra `dev`, and no other ones."""

import subprocess
import sys
from importlib.metadata import packages_distributions, requires

import pytest
from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name

from tests.support.paths import ROOT

COLLECT = """
import sys, pytest
sys.modules.update(dict.fromkeys(sys.argv[1].split(",")))  # as if these were not installed
sys.exit(pytest.main(["--collect-only", "--quiet", "--quiet", "-p", "no:cacheprovider", "tests"]))
"""
OTHERS = ("console-tests", "client-tests", "docs", "embeddings", "embedding-tests", "mutation-tests")


def packages_of(*extras: str) -> set[NormalizedName]:
    """Return the names of the packages that these extras install, without what those require."""
    declared = [Requirement(each) for each in requires("cuebook") or ()]
    wanted = [
        each for each in declared if each.marker and any(each.marker.evaluate({"extra": name}) for name in extras)
    ]
    return {canonicalize_name(each.name) for each in wanted} - {canonicalize_name("cuebook")}


@pytest.mark.slow
def test_the_tests_are_collected_with_the_packages_of_dev_alone() -> None:
    absent = packages_of(*OTHERS) - packages_of("dev")
    modules = [
        name
        for name, packages in packages_distributions().items()
        if {canonicalize_name(each) for each in packages} <= absent
    ]
    assert "playwright" in absent
    collected = subprocess.run(
        [sys.executable, "-c", COLLECT, ",".join(modules)], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert collected.returncode == 0, collected.stdout
