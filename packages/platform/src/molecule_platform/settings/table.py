"""The table of settings, and the names that belong to other parts of the house."""

from molecule_platform.settings import limits, parsers, plugins
from molecule_platform.settings.setting import Setting

_MEBIBYTE = 1024 * 1024
_HOUR = 3600
_DAY = 24 * _HOUR
_YEAR = 365 * _DAY


_ENVIRONMENTS = {
    "prod": "production",
    "production": "production",
    "dev": "development",
    "development": "development",
}
_PROVISIONERS = {"process": "process", "docker": "docker", "none": "none"}
_DEPLOY_MODES = {"selfhosted": "selfhosted", "saas": "saas"}
_bytes = parsers.whole(1024, 1024 * _MEBIBYTE)
_life = parsers.whole(1, _YEAR)
_days = parsers.whole(1, 3650)

SETTINGS: tuple[Setting, ...] = (
    Setting("PORT", "port", parsers.whole(1, 65535), "8080", "Port of the API, the streams and the canvas."),
    Setting(
        "MOLECULE_BIND_HOST", "bind_host", parsers.host, "127.0.0.1", "Address to listen on; 0.0.0.0 is all."
    ),
    Setting(
        "MOLECULE_DATA_DIR",
        "data_dir",
        parsers.folder,
        "~/.molecule/platform",
        "Folder of the database, keys and files, with mode 0700.",
    ),
    Setting(
        "DATABASE_URL",
        "database_url",
        parsers.database_url,
        None,
        "PostgreSQL to share between replicas; without it SQLite in the data folder.",
        secret=True,
    ),
    Setting(
        "NATS_URL", "nats_url", parsers.nats_url, None, "NATS for wake-ups between replicas.", secret=True
    ),
    Setting("PLATFORM_URL", "platform_url", parsers.base_url, None, "Base URL given to local agents."),
    Setting(
        "EXTERNAL_PLATFORM_URL",
        "external_platform_url",
        parsers.base_url,
        None,
        "Base URL put into cards, discovery and tokens.",
    ),
    Setting(
        "ADMIN_TOKEN",
        "admin_token",
        parsers.header_token,
        None,
        "Credential of the administrator; without it one is made in the data folder.",
        secret=True,
    ),
    Setting(
        "MOLECULE_ENV",
        "environment",
        parsers.choice(_ENVIRONMENTS),
        "production",
        "Kind of environment; changes only what is logged.",
    ),
    Setting(
        "MOLECULE_ORG_SLUG",
        "org_slug",
        parsers.slug,
        "default",
        "Short name of the organisation that the first start makes.",
    ),
    Setting(
        "MOLECULE_DEPLOY_MODE",
        "deploy_mode",
        parsers.choice(_DEPLOY_MODES),
        "selfhosted",
        "selfhosted, or saas, which never calls private addresses.",
    ),
    Setting(
        "MOLECULE_CLAIM_ON_REGISTER",
        "claim_on_register",
        parsers.flag,
        "true",
        "Whether the first register without a credential claims a new workspace.",
    ),
    Setting(
        "MOLECULE_STRICT_REGISTER",
        "strict_register",
        parsers.flag,
        "false",
        "Whether a register without a credential on a claimed workspace is refused with 401.",
    ),
    Setting(
        "MOLECULE_OPEN_ENROLMENT",
        "open_enrolment",
        parsers.flag,
        "false",
        "Whether an agent with an unknown id may register: it becomes an isolated root of the default org.",
    ),
    Setting(
        "MOLECULE_CLAIM_WINDOW_SECONDS",
        "claim_window_seconds",
        _life,
        str(_HOUR),
        "How long after its creation the first who registers a workspace gets its token; until then its id "
        "is a secret.",
    ),
    Setting(
        "CORS_ORIGINS",
        "cors_origins",
        parsers.origins,
        None,
        "Origins of other pages that may use the API from a browser, separated by commas.",
    ),
    Setting(
        "MOLECULE_ALLOWED_HOSTS",
        "allowed_hosts",
        parsers.host_names,
        None,
        "Further names of this platform, such as a compose service's, with or without a port; a request that "
        "names another Host is refused with 421.",
    ),
    Setting(
        "MOLECULE_TRUSTED_PROXIES",
        "trusted_proxies",
        parsers.networks,
        None,
        "Addresses of proxies whose X-Forwarded headers are believed.",
    ),
    Setting(
        "RATE_LIMIT",
        "rate_limit",
        parsers.whole(0, 10_000_000),
        "600",
        "Requests per minute of one principal; 0 means no limit.",
    ),
    Setting(
        "RATE_LIMIT_ANON",
        "rate_limit_anon",
        parsers.whole(0, 10_000_000),
        "60",
        "Requests per minute without a credential, by address; 0 means no limit.",
    ),
    Setting(
        "MOLECULE_MAX_BODY_BYTES", "max_body_bytes", _bytes, str(_MEBIBYTE), "Largest body of an API request."
    ),
    Setting(
        "MOLECULE_A2A_MAX_BODY_BYTES",
        "a2a_max_body_bytes",
        _bytes,
        str(16 * _MEBIBYTE),
        "Largest body of an A2A request.",
    ),
    Setting(
        "MOLECULE_A2A_MAX_RESPONSE_BYTES",
        "a2a_max_response_bytes",
        _bytes,
        str(64 * _MEBIBYTE),
        "Largest reply accepted from an agent, and most bytes of artifacts in one running task.",
    ),
    *limits.SETTINGS,
    Setting(
        "MOLECULE_ALLOW_PRIVATE_URLS",
        "allow_private_urls",
        parsers.private_networks,
        None,
        "Local networks in which agents may be called: none, loopback, private, or networks. Without it "
        "loopback while the platform is bound to a loopback address and has neither an external URL nor "
        "trusted proxies, else none.",
    ),
    Setting(
        "MOLECULE_CARD_JKU_HOSTS",
        "card_jku_hosts",
        parsers.hosts,
        None,
        "Hosts whose keys may vouch for cards of agents elsewhere, separated by commas.",
    ),
    Setting(
        "MOLECULE_PUSH_ALLOW_PRIVATE",
        "push_allow_private",
        parsers.flag,
        "false",
        "Whether URLs named by callers may be loopback or private.",
    ),
    Setting(
        "A2A_IDLE_TIMEOUT_SECONDS",
        "a2a_idle_timeout_seconds",
        _life,
        "300",
        "How long a running message may be silent.",
    ),
    Setting(
        "A2A_MAX_RUN_SECONDS",
        "a2a_max_run_seconds",
        _life,
        "1800",
        "How long a message of a workspace may run.",
    ),
    Setting(
        "MOLECULE_A2A_HOLD_SECONDS",
        "a2a_hold_seconds",
        parsers.seconds(0, 3600),
        "25",
        "How long a call waits for its answer before it is told to ask again.",
    ),
    Setting(
        "MOLECULE_A2A_BLOCKING_MAX_SECONDS",
        "a2a_blocking_max_seconds",
        parsers.seconds(0, 86_400),
        "1800",
        "How long a blocking send at the standard A2A base waits before it gets the task as it stands.",
    ),
    Setting(
        "MESSAGE_TTL_SECONDS",
        "message_ttl_seconds",
        _life,
        str(_DAY),
        "How long a message may wait to be taken.",
    ),
    *limits.MAILBOX_SETTINGS,
    Setting(
        "MESSAGE_MAX_ATTEMPTS",
        "message_max_attempts",
        parsers.whole(1, 100),
        "5",
        "How often delivery of a message is attempted.",
    ),
    Setting(
        "MESSAGE_MAX_RELEASES",
        "message_max_releases",
        parsers.whole(1, 1000),
        "20",
        "How often an agent may give a message back without an outcome.",
    ),
    Setting(
        "MAX_DELEGATION_DEPTH",
        "max_delegation_depth",
        parsers.whole(1, 64),
        "8",
        "How often delegated work may be passed on.",
    ),
    Setting(
        "MAX_CALLS_PER_ROOT",
        "max_calls_per_root",
        parsers.whole(1, 10_000),
        "64",
        "How many delegations may come of one.",
    ),
    Setting(
        "REMOTE_LIVENESS_STALE_AFTER",
        "remote_liveness_stale_after",
        _life,
        "90",
        "Seconds without a heartbeat after which an external agent is offline.",
    ),
    Setting(
        "PROVISION_TIMEOUT_SECONDS",
        "provision_timeout_seconds",
        _life,
        "600",
        "Seconds after which an agent that the platform starts must have answered; hermes has at least 1800.",
    ),
    Setting(
        "HIBERNATION_IDLE_MINUTES",
        "hibernation_idle_minutes",
        parsers.whole(0, 525_600),
        "0",
        "Minutes without work after which an agent that the platform starts sleeps; 0 is never.",
    ),
    Setting(
        "MOLECULE_PROVISIONER",
        "provisioner",
        parsers.choice(_PROVISIONERS),
        None,
        "What starts agents: process, docker or none; without it, what this build has.",
    ),
    Setting(
        "MOLECULE_WORKSPACE_ROOTS",
        "workspace_roots",
        parsers.folders,
        None,
        "Folders, separated by commas, inside which every workspace_dir must lie; without it, anywhere.",
    ),
    Setting(
        "ACTIVITY_RETENTION_DAYS",
        "activity_retention_days",
        _days,
        "7",
        "Days that activity is kept; that of open messages stays.",
    ),
    Setting(
        "ACTIVITY_CLEANUP_INTERVAL_HOURS",
        "activity_cleanup_interval_hours",
        parsers.whole(1, 24 * 365),
        "6",
        "Hours between two rounds that forget what is old.",
    ),
    Setting("EVENT_RETENTION_DAYS", "event_retention_days", _days, "30", "Days that events are kept."),
    Setting(
        "MOLECULE_TASK_RETENTION_DAYS",
        "task_retention_days",
        _days,
        "7",
        "Days that messages and tasks are kept after they ended.",
    ),
    Setting(
        "MOLECULE_INTERRUPTED_TASK_HOURS",
        "interrupted_task_hours",
        parsers.whole(1, 24 * 365),
        "168",
        "Hours after which a task that waits for its caller is given up.",
    ),
    Setting(
        "MOLECULE_TASK_EVENT_RETENTION_HOURS",
        "task_event_retention_hours",
        parsers.whole(1, 24 * 3650),
        "24",
        "Hours that the event log of a task is kept after the task ended.",
    ),
    Setting(
        "DELEGATION_RETENTION_DAYS",
        "delegation_retention_days",
        _days,
        "90",
        "Days that delegations are kept after they ended, with their results.",
    ),
    *plugins.SETTINGS,
    Setting(
        "SECRETS_ENCRYPTION_KEY",
        "secrets_encryption_key",
        parsers.text,
        None,
        "Key that seals stored secrets: base64 of 32 bytes, or 32 characters; without it one is made.",
        secret=True,
    ),
)

KNOWN_ELSEWHERE: tuple[str, ...] = (
    "MOLECULE_A2A_ALLOW_NO_SECRET",
    "MOLECULE_A2A_CALLBACK_*",
    "MOLECULE_A2A_PLATFORM_*",
    "MOLECULE_ADMIN_TOKEN",
    "MOLECULE_AGENT_NAME",
    "MOLECULE_AGENT_ROLE",
    "MOLECULE_ALLOW_PRIVILEGED_TIERS",
    "MOLECULE_ARTIFACT_MAX_BYTES",
    "MOLECULE_AUTO_ATTACH",
    "MOLECULE_CONFIGS_DIR",
    "MOLECULE_CURSOR_FILE",
    "MOLECULE_DELIVERY",
    "MOLECULE_DISABLE_IMAGE_INLINING",
    "MOLECULE_DRAIN_SECONDS",
    "MOLECULE_ENABLE_TEST_TOKENS",
    "MOLECULE_ENGINES_DIR",
    "MOLECULE_ENROLMENT_TOKEN",
    "MOLECULE_EXTRA_RUNTIMES",
    "MOLECULE_HANDLER",
    "MOLECULE_LINK",
    "MOLECULE_LOG_FORMAT",
    "MOLECULE_MCP_*",
    "MOLECULE_MODEL_*",
    "MOLECULE_ORIGIN",
    "MOLECULE_PLATFORM_URL",
    "MOLECULE_PLUGIN_SETUP",
    "MOLECULE_POLL_INTERVAL",
    "MOLECULE_REPORTED_URL",
    "MOLECULE_REQUIRE_CALLER",
    "MOLECULE_RUN_RETENTION_DAYS",
    "MOLECULE_SANDBOX_*",
    "MOLECULE_SETUP_TIMEOUT_SECS",
    "MOLECULE_SKILL_QUEUE",
    "MOLECULE_SMOKE_*",
    "MOLECULE_STOP_GRACE_SECS",
    "MOLECULE_TOKEN_DIR",
    "MOLECULE_URL",
    "MOLECULE_WAIT",
    "MOLECULE_WORKSPACES",
    "MOLECULE_WORKSPACE_*",
)
"""Names of the agents' side and of later parts of the platform: no mistakes, so no warning."""

REFUSED: dict[str, str] = {
    "MOLECULE_ORG_ID": "the platform cannot demand X-Molecule-Org-Id of every request yet, so it would look "
    "closed and not be. Unset it here: a credential names its organisation, and a header must name the same",
}
"""Names that would promise a protection which is not there: the start ends with the reason."""

IGNORED: tuple[str, ...] = ("REDIS_URL", "CANVAS_PROXY_URL")
"""Names of the earlier system that mean nothing here, which the operator is told."""
