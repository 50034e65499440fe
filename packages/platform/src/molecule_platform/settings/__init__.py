"""Every setting of the platform: one table, read once at start."""

from molecule_platform.settings.loading import Settings, load
from molecule_platform.settings.parsers import SettingProblem
from molecule_platform.settings.setting import Setting
from molecule_platform.settings.table import KNOWN_ELSEWHERE, SETTINGS

__all__ = ["KNOWN_ELSEWHERE", "SETTINGS", "Setting", "SettingProblem", "Settings", "load"]
