"""The machine's chromium, for tests of pages: skipped where there is none, unless KONTRAST_REQUIRE_BROWSER is set."""

import os
import shutil

import pytest

CHROMIUM = shutil.which("chromium")
if CHROMIUM is None and os.environ.get("KONTRAST_REQUIRE_BROWSER"):
    raise RuntimeError("no chromium on this machine, and KONTRAST_REQUIRE_BROWSER is set")
in_a_browser = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")
