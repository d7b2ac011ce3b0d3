"""Settings of the site: `make docs` builds it, `make docs-quick` without its gallery.

Pages are the Markdown files of this folder; the reference is written from docstrings
(`_ext/reference.py`), cards of worlds are computed (`_ext/world_cards.py`), and the
gallery runs `examples/`. Nothing is fetched from elsewhere when a page is read.
"""

import os
import sys
from importlib.metadata import version as installed
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent / "src")]
# Pictures are drawn without a screen, also by processes that an example starts.
os.environ["MPLBACKEND"] = "Agg"

from package_stamp import in_r, package_changed  # noqa: E402
from reference import write_pages  # noqa: E402

project = "bayesmdp"
author = copyright = "The bayesmdp developers"
version = release = installed("bayesmdp")
language = "en-GB"

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_design",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "reference",
    "world_cards",
    "licences",
    "package_stamp",
    "link_check",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "**sg_execution_times.rst"]
default_role = "py:obj"
add_module_names = False
nitpicky = False

autosummary_generate = write_pages()
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
maximum_signature_line_length = 80
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

myst_enable_extensions = ["colon_fence", "deflist", "attrs_block", "attrs_inline"]
myst_heading_anchors = 4
suppress_warnings = ["myst.xref_missing.anchor", "config.cache"]

# Their data are those of R packages, and of none that pip has: run where R has them.
FROM_R = {"pbcseq": "survival::pbcseq", "cav": "msm::cav"}
NOT_RUN = "|".join(["chemotherapy", *(x for x in FROM_R if not in_r(FROM_R[x]))])

sphinx_gallery_conf = {
    "examples_dirs": ["../examples"],
    "gallery_dirs": ["gallery"],
    "filename_pattern": rf"^(?!.*({NOT_RUN})\.py$)",
    "backreferences_dir": "gallery/backreferences",
    "doc_module": ("bayesmdp",),
    "prefer_full_module": {r"bayesmdp\.plots"},
    "within_subsection_order": "FileNameSortKey",
    "run_stale_examples": package_changed(),
    "abort_on_example_error": False,
    "only_warn_on_example_error": False,
    "remove_config_comments": True,
    "capture_repr": (),  # what a script prints, and no more
    "show_memory": False,
    "min_reported_time": 0,
    "download_all_examples": True,
    "nested_sections": False,
    "reset_modules": ("matplotlib",),
    "thumbnail_size": (400, 280),
    "default_thumb_file": str(HERE / "_static" / "not_run.png"),
}

html_theme = "pydata_sphinx_theme"
html_title = "bayesmdp"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_sidebars = {"index": [], "worlds": [], "glossary": [], "limits": []}
html_theme_options = {
    "logo": {"text": "bayesmdp"},
    "navbar_align": "left",
    "show_prev_next": False,
    "show_toc_level": 2,
    # Tables that scripts print are wide.
    "secondary_sidebar_items": {
        "*": ["page-toc"],
        "api/**": ["page-toc"],
        "doors/*": ["page-toc"],
        "gallery/*": [],
    },
    "header_links_before_dropdown": 8,
    "navbar_end": ["theme-switcher"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
