"""SHOW IT: results -> a plain dict -> JSON, or one HTML file that needs no network.

README.md in this folder says how it works.
"""

from bayesmdp.reporting import plots
from bayesmdp.reporting._report import Report, check_page, report

__all__ = ["Report", "plots", "report"]
