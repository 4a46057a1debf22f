"""Makes the benchmarks' set of questions importable as `recall_set`; the folders of tests are no packages."""

import importlib.util
import sys
from pathlib import Path

_PATH = Path(__file__).parents[3] / "benchmarks/recall_set.py"
_spec = importlib.util.spec_from_file_location("recall_set", _PATH)
assert _spec is not None
assert _spec.loader is not None
sys.modules["recall_set"] = _module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)
