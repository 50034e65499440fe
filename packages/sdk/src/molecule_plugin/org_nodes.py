"""What must hold of one workspace in an org template."""

from collections.abc import Iterator
from typing import NamedTuple
from zoneinfo import ZoneInfo, available_timezones

from molecule_plugin.channel import channel_findings
from molecule_plugin.findings import Severity
from molecule_plugin.values import is_tier, items, mapping, named, shown, text, type_name
from molecule_plugin.workspace import is_runtime, runtime_choices
from molecule_plugin.yaml_reading import Steps
from molecule_wire.cron import parse_cron

WORKSPACE_ACCESS = ("none", "read_only", "read_write")


class Remark(NamedTuple):
    """What is to be said about a workspace, and the way from it to the part that is meant."""

    message: str
    steps: Steps = ()
    severity: Severity = "error"
    code: str = "org-invalid"


def remarks(value: object, defaults: dict[str, object]) -> list[Remark]:
    """Everything about one workspace; its children are looked at one by one."""
    if mapping(value) is None:
        return [Remark(f": must be an object, got {type_name(value)}")]
    said = named(value)
    return [
        *_name_and_runtime(said),
        *_folder(said, defaults),
        *_external(said),
        *_plugins_and_children(said),
        *_channels(said),
        *_schedules(said),
    ]


def _name_and_runtime(said: dict[str, object]) -> Iterator[Remark]:
    if said.get("name") in (None, ""):
        yield Remark(": missing required field 'name'")
    if said.get("tier") is not None and not is_tier(said["tier"]):
        yield Remark(f": tier must be 1, 2, or 3; got {shown(said['tier'])}", ("tier",))
    runtime = said.get("runtime")
    if runtime not in (None, "") and not is_runtime(runtime):
        message = f": runtime={shown(runtime)} — must be one of {runtime_choices()}"
        yield Remark(message, ("runtime",))


def _folder(said: dict[str, object], defaults: dict[str, object]) -> Iterator[Remark]:
    access = said.get("workspace_access")
    if access in (None, ""):
        return
    if not isinstance(access, str) or access not in WORKSPACE_ACCESS:
        message = f": workspace_access={shown(access)} — must be one of {list(WORKSPACE_ACCESS)}"
        yield Remark(message, ("workspace_access",))
    elif access != "none" and not (said.get("workspace_dir") or defaults.get("workspace_dir")):
        message = f": workspace_access='{access}' requires workspace_dir to be set"
        yield Remark(message, ("workspace_access",))


def _external(said: dict[str, object]) -> Iterator[Remark]:
    if said.get("external") is not True or said.get("url"):
        return
    message = ": external=true requires url to be set"
    if "poll" in (said.get("delivery"), said.get("delivery_mode")):
        yield Remark(message, ("external",), "warning", "external-without-url")
    else:
        yield Remark(message, ("external",))


def _plugins_and_children(said: dict[str, object]) -> Iterator[Remark]:
    plugins = said.get("plugins")
    listed = items(plugins)
    if plugins is not None and (listed is None or not all(isinstance(name, str) for name in listed)):
        yield Remark(".plugins: must be a list of strings", ("plugins",))
    if said.get("children") is not None and items(said["children"]) is None:
        yield Remark(".children: must be a list", ("children",))


def _channels(said: dict[str, object]) -> Iterator[Remark]:
    if said.get("channels") is not None and items(said["channels"]) is None:
        yield Remark(".channels: must be a list", ("channels",))
    for number, channel in enumerate(items(said.get("channels")) or []):
        steps, label = ("channels", number), f".channels[{number}]"
        if mapping(channel) is None:
            yield Remark(f"{label}: must be an object", steps)
            continue
        for found in channel_findings(channel):
            yield Remark(f"{label}: {found.message}", steps, "warning", found.code)


def _schedules(said: dict[str, object]) -> Iterator[Remark]:
    if said.get("schedules") is not None and items(said["schedules"]) is None:
        yield Remark(".schedules: must be a list", ("schedules",))
    for number, schedule in enumerate(items(said.get("schedules")) or []):
        steps, label = ("schedules", number), f".schedules[{number}]"
        if mapping(schedule) is None:
            yield Remark(f"{label}: must be an object", steps)
            continue
        for remark in _schedule(named(schedule)):
            yield remark._replace(message=f"{label}: {remark.message}", steps=(*steps, *remark.steps))


def _schedule(said: dict[str, object]) -> Iterator[Remark]:
    cron = said.get("cron_expr") or said.get("expression")
    if not cron:
        yield Remark("missing 'cron_expr'")
    elif problem := _cron_problem(cron):
        yield Remark(problem, ("cron_expr",), "warning", "cron-invalid")
    if not (said.get("prompt") or said.get("prompt_file")):
        yield Remark("missing 'prompt'")
    zone = said.get("timezone")
    if zone is not None and not _is_zone(zone):
        message = f"timezone={shown(zone)} is not a zone such as 'Europe/Berlin'"
        yield Remark(message, ("timezone",), "warning", "timezone-invalid")


def _cron_problem(value: object) -> str:
    try:
        parse_cron(text(value))
    except ValueError as problem:
        return str(problem)
    return ""


def _is_zone(value: object) -> bool:
    """Whether a value names a time zone; without a list of zones, as on bare Windows, any text may."""
    try:
        ZoneInfo(text(value))
    except KeyError:
        return bool(text(value)) and not available_timezones()
    except (ValueError, OSError):
        return False
    return True
