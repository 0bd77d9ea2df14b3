"""How the site is built: `make docs`, which runs Sphinx with -W -n into build/site.

The source directory is the repository itself, not docs/. So a page has the same path in the site as in the repository,
and a relative link (`../ARCHITECTURE.md`, `../../assignor/explain.py`) works in both without being rewritten: a link
to a page leads to the page, a link to any other file to a copy of that file that the site carries. Sphinx checks both.
"""

import sys
from pathlib import Path

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS.parent))

project = "assignor"
author = "assignor contributors"
project_copyright = "assignor contributors"
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx_copybutton",
    "docs._ext.generated_pages",
    "docs._ext.type_names",
]

root_doc = "docs/index"
include_patterns = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "SECURITY.md",
    "docs/**.md",
    "examples/README.md",
]
exclude_patterns = [".*", "build", "dist", "tests", "benchmarks"]

myst_enable_extensions = ["attrs_block", "colon_fence", "deflist"]
myst_heading_anchors = 4  # `page.md#a-heading` as on a git forge, checked

default_role = "code"  # the role of text in single backquotes in a docstring
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
maximum_signature_line_length = 250  # a longer one has a line for each parameter
highlight_language = "none"
smartquotes = False  # it would make one dash of the two before an option

html_theme = "furo"
html_title = "assignor"
html_static_path = ["_static"]
html_css_files = ["tables.css"]
html_extra_path = ["_root"]  # build/site/index.html redirects to the first page
html_copy_source = False
html_show_sphinx = False
copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True
