"""The settings that bound the work of one request, and of one caller."""

from molecule_platform.settings import parsers
from molecule_platform.settings.setting import Setting

_MEBIBYTE = 1024 * 1024
_bytes = parsers.whole(1024, 1024 * 1024 * _MEBIBYTE)

MAILBOX_SETTINGS: tuple[Setting, ...] = (
    Setting(
        "MAILBOX_MAX_OPEN",
        "mailbox_max_open",
        parsers.whole(1, 1_000_000),
        "1000",
        "How many open messages one mailbox holds.",
    ),
    Setting(
        "MAILBOX_SENDER_PERCENT",
        "mailbox_sender_percent",
        parsers.whole(1, 100),
        "20",
        "Share of a mailbox that one sender may hold; not for users, org tokens and ancestors.",
    ),
    Setting(
        "MAILBOX_MAX_BYTES",
        "mailbox_max_bytes",
        _bytes,
        str(256 * _MEBIBYTE),
        "Bytes of the open messages of one mailbox.",
    ),
    Setting(
        "ORG_MAX_BYTES",
        "org_max_bytes",
        _bytes,
        str(4096 * _MEBIBYTE),
        "Bytes of the open messages of one organisation.",
    ),
)

SETTINGS: tuple[Setting, ...] = (
    Setting(
        "MOLECULE_JSON_MAX_VALUES",
        "json_max_values",
        parsers.whole(100, 100_000_000),
        "100000",
        "How many values one JSON body may have.",
    ),
    Setting(
        "MOLECULE_JSON_MAX_DEPTH",
        "json_max_depth",
        parsers.whole(8, 200),
        "64",
        "How deep the values of one JSON body may nest.",
    ),
    Setting(
        "MOLECULE_MESSAGE_MAX_PARTS",
        "message_max_parts",
        parsers.whole(1, 1_000_000),
        "1000",
        "How many parts one message or artifact may have.",
    ),
    Setting(
        "MOLECULE_WORK_MAX_BYTES",
        "work_max_bytes",
        _bytes,
        str(64 * _MEBIBYTE),
        "Bytes of large bodies that this process reads or works on at the same time.",
    ),
    Setting(
        "MOLECULE_PRINCIPAL_WORK_MAX_BYTES",
        "principal_work_max_bytes",
        _bytes,
        str(32 * _MEBIBYTE),
        "Bytes of large bodies of one principal that are read or worked on at the same time.",
    ),
    Setting(
        "MOLECULE_MAX_CONNECTIONS",
        "max_connections",
        parsers.whole(0, 1_000_000),
        "2000",
        "Connections of one address or principal at the same time, at most an eighth of the file limit; "
        "0 means that eighth.",
    ),
    Setting(
        "MOLECULE_MAX_OPEN_REQUESTS",
        "max_open_requests",
        parsers.whole(0, 1_000_000),
        "1000",
        "Requests of one principal, streams, WebSockets and long polls among them, that are open at the same "
        "time; 0 means no limit.",
    ),
    Setting(
        "MOLECULE_MAX_AGENT_STREAMS",
        "max_agent_streams",
        parsers.whole(0, 1_000_000),
        "32",
        "Streams of one principal to one agent that are open at the same time; 0 means no limit.",
    ),
)
