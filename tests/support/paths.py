"""Where the project, its example scripts and the data of the tests are."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIBRARY = ROOT / "scripts" / "library"
DATA = ROOT / "tests" / "data"
CONVERSATIONS = DATA / "conversations"
STAGE_SCRIPTS = DATA / "stage"
BROKEN_SCRIPTS = DATA / "broken"
CASES_FOLDER = ROOT / "tests" / "e2e" / "cases"
PROCESSES = ROOT / "tests" / "support" / "processes"
CUEBOOK = Path(sys.executable).with_name("cuebook")
