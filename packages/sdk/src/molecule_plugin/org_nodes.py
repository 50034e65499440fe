"""What must hold of one workspace in an org template."""

from collections.abc import Iterator
from typing import NamedTuple
from zoneinfo import ZoneInfo, available_timezones

from molecule_plugin.channel import channel_findings
from molecule_plugin.findings import Severity
from molecule_plugin.values import display, is_tier, items, mapping, named, text, type_name
from molecule_plugin.workspace import is_runtime, runtime_choices
from molecule_plugin.yaml_reader import Steps
from molecule_wire.cron import parse_cron

WORKSPACE_ACCESS = ("none", "read_only", "read_write")


class NodeFinding(NamedTuple):
    """What is to be said about a workspace, and the way from it to the part that is meant."""

    message: str
    steps: Steps = ()
    severity: Severity = "error"
    code: str = "org-invalid"


def remarks(value: object, defaults: dict[str, object]) -> list[NodeFinding]:
    """Everything about one workspace; its children are looked at one by one."""
    if mapping(value) is None:
        return [NodeFinding(f": must be an object, got {type_name(value)}")]
    fields = named(value)
    return [
        *_name_and_runtime(fields),
        *_folder(fields, defaults),
        *_external(fields),
        *_plugins_and_children(fields),
        *_channels(fields),
        *_schedules(fields),
    ]


def _name_and_runtime(fields: dict[str, object]) -> Iterator[NodeFinding]:
    if fields.get("name") in (None, ""):
        yield NodeFinding(": missing required field 'name'")
    if fields.get("tier") is not None and not is_tier(fields["tier"]):
        yield NodeFinding(f": tier must be 1, 2, or 3; got {display(fields['tier'])}", ("tier",))
    runtime = fields.get("runtime")
    if runtime not in (None, "") and not is_runtime(runtime):
        message = f": runtime={display(runtime)} — must be one of {runtime_choices()}"
        yield NodeFinding(message, ("runtime",))


def _folder(fields: dict[str, object], defaults: dict[str, object]) -> Iterator[NodeFinding]:
    access = fields.get("workspace_access")
    if access in (None, ""):
        return
    if not isinstance(access, str) or access not in WORKSPACE_ACCESS:
        message = f": workspace_access={display(access)} — must be one of {list(WORKSPACE_ACCESS)}"
        yield NodeFinding(message, ("workspace_access",))
    elif access != "none" and not (fields.get("workspace_dir") or defaults.get("workspace_dir")):
        message = f": workspace_access='{access}' requires workspace_dir to be set"
        yield NodeFinding(message, ("workspace_access",))


def _external(fields: dict[str, object]) -> Iterator[NodeFinding]:
    if fields.get("external") is not True or fields.get("url"):
        return
    message = ": external=true requires url to be set"
    if "poll" in (fields.get("delivery"), fields.get("delivery_mode")):
        yield NodeFinding(message, ("external",), "warning", "external-without-url")
    else:
        yield NodeFinding(message, ("external",))


def _plugins_and_children(fields: dict[str, object]) -> Iterator[NodeFinding]:
    plugins = fields.get("plugins")
    listed = items(plugins)
    if plugins is not None and (listed is None or not all(isinstance(name, str) for name in listed)):
        yield NodeFinding(".plugins: must be a list of strings", ("plugins",))
    if fields.get("children") is not None and items(fields["children"]) is None:
        yield NodeFinding(".children: must be a list", ("children",))


def _channels(fields: dict[str, object]) -> Iterator[NodeFinding]:
    if fields.get("channels") is not None and items(fields["channels"]) is None:
        yield NodeFinding(".channels: must be a list", ("channels",))
    for number, channel in enumerate(items(fields.get("channels")) or []):
        steps, label = ("channels", number), f".channels[{number}]"
        if mapping(channel) is None:
            yield NodeFinding(f"{label}: must be an object", steps)
            continue
        for found in channel_findings(channel):
            yield NodeFinding(f"{label}: {found.message}", steps, "warning", found.code)


def _schedules(fields: dict[str, object]) -> Iterator[NodeFinding]:
    if fields.get("schedules") is not None and items(fields["schedules"]) is None:
        yield NodeFinding(".schedules: must be a list", ("schedules",))
    for number, schedule in enumerate(items(fields.get("schedules")) or []):
        steps, label = ("schedules", number), f".schedules[{number}]"
        if mapping(schedule) is None:
            yield NodeFinding(f"{label}: must be an object", steps)
            continue
        for remark in _schedule(named(schedule)):
            yield remark._replace(message=f"{label}: {remark.message}", steps=(*steps, *remark.steps))


def _schedule(fields: dict[str, object]) -> Iterator[NodeFinding]:
    cron = fields.get("cron_expr") or fields.get("expression")
    if not cron:
        yield NodeFinding("missing 'cron_expr'")
    elif problem := _cron_problem(cron):
        yield NodeFinding(problem, ("cron_expr",), "warning", "cron-invalid")
    if not (fields.get("prompt") or fields.get("prompt_file")):
        yield NodeFinding("missing 'prompt'")
    zone = fields.get("timezone")
    if zone is not None and not _is_zone(zone):
        message = f"timezone={display(zone)} is not a zone such as 'Europe/Berlin'"
        yield NodeFinding(message, ("timezone",), "warning", "timezone-invalid")


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
