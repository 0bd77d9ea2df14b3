"""Tests see the source that is there, even if another one was compiled."""

from tests.compiled_modules import import_sources_that_have_changed

import_sources_that_have_changed()
