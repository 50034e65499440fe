"""Compatibility path: this name is the module `molecule_runtime.settings.preflight` itself."""

import sys

from molecule_runtime.settings import preflight as _module
from molecule_runtime.settings.preflight import PreflightIssue as PreflightIssue
from molecule_runtime.settings.preflight import PreflightReport as PreflightReport
from molecule_runtime.settings.preflight import format_preflight_report as format_preflight_report
from molecule_runtime.settings.preflight import render_preflight_report as render_preflight_report
from molecule_runtime.settings.preflight import run_preflight as run_preflight

sys.modules[__name__] = _module
