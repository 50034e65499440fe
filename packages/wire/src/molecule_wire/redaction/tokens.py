"""Table of credential kinds that have a prefix of their own."""

import re
from dataclasses import dataclass

AFTER_ESCAPE = r"(?<=\\[bfnrt])|(?<=\\u[0-9a-fA-F]{4})"
"""Text that holds JSON has escapes before a token: `\\nghp_…`, `\\u201cghp_…`."""


def starts_with(literal: str, not_after: str) -> str:
    """Return the pattern of a literal that does not stand after some characters, unless they are an escape.

    The literal comes first and its context is looked up behind it: `re` finds a literal at the start of a
    pattern ten times as fast as a lookbehind there.
    """
    text = re.escape(literal)
    return rf"{text}(?:(?<![{not_after}]{text})|(?<=\\[bfnrt]{text})|(?<=\\u[0-9a-fA-F]{{4}}{text}))"


_NO_WORD = r"\w./~-"


@dataclass(frozen=True)
class TokenKind:
    """Tokens of one issuer: `prefix`, then at least `minimum` characters of `alphabet`.

    `words` are the literal parts of the prefix, of which a text must have one. `log_minimum` is the length
    that counts in logs and snapshots, where masking too much costs little; `memory_minimum` the length in
    memories. A token does not begin after a character of `not_after`. `type` is its name in answers.
    """

    label: str
    title: str
    prefix: str
    alphabet: str
    minimum: int
    words: tuple[str, ...]
    log_minimum: int | None = None
    memory_minimum: int | None = None
    not_after: str = "A-Za-z0-9"
    type: str = "api_key"

    def start(self, minimum: int) -> str:
        """Return the pattern of the shortest token; further characters belong to it as well."""
        literal = self.prefix.replace("\\.", ".")
        is_literal = re.fullmatch(r"[\w./-]+", literal) is not None and "[" not in literal
        begin = (
            starts_with(literal, self.not_after)
            if is_literal
            else rf"(?:(?<![{self.not_after}])|{AFTER_ESCAPE}){self.prefix}"
        )
        return rf"{begin}[{self.alphabet}]{{{max(minimum, 1)}}}"


def _kind(label: str, title: str, prefix: str, alphabet: str, minimum: int, *words: str) -> TokenKind:
    return TokenKind(label, title, prefix, alphabet, minimum, words or (prefix.replace("\\", ""),))


def _github(label: str, prefix: str, log_minimum: int, memory_minimum: int) -> TokenKind:
    words = tuple(f"gh{one}_" for one in "our") if "[" in prefix else (prefix,)
    return TokenKind(
        label,
        "GitHub token",
        prefix,
        r"\w",
        20,
        words,
        log_minimum=log_minimum,
        memory_minimum=memory_minimum,
        type="github_token",
    )


_ALPHANUMERIC = "A-Za-z0-9"
_HEX = "0-9a-f"

TOKEN_KINDS = (
    # `sk-` is a word of its own: "task-…" is none, nor is "/docs/sk-learn-tutorials". OpenAI, Anthropic,
    # OpenRouter, DeepSeek and others.
    TokenKind("SK_TOKEN", "sk- key", "sk-", r"\w-", 16, ("sk-",), memory_minimum=20, not_after=_NO_WORD),
    _github("GITHUB_PAT", "ghp_", 8, 36),
    _github("GITHUB_SERVER_TOKEN", "ghs_", 1, 36),
    _github("GITHUB_TOKEN", "gh[our]_", 16, 36),
    _github("GITHUB_PAT_V2", "github_pat_", 8, 82),
    TokenKind("AWS_ACCESS_KEY", "AWS key", "A[KS]IA", "0-9A-Z", 16, ("AKIA", "ASIA"), type="aws_key"),
    TokenKind(
        "AWS_SESSION_TOKEN",
        "AWS session token",
        "(?:IQoJb3JpZ2lu|FwoGZXIvYXdz)",
        r"\w+/=",
        100,
        ("IQoJb3JpZ2lu", "FwoGZXIvYXdz"),
        type="aws_key",
    ),
    TokenKind("SLACK_TOKEN", "Slack token", "xox[a-z]-", r"\w-", 8, ("xox",), log_minimum=1),
    _kind("SLACK_TOKEN", "Slack token", "xapp-", r"\w-", 20),
    _kind("SLACK_WEBHOOK", "Slack webhook", r"hooks\.slack\.com/", r"\w/", 30),
    _kind("GOOGLE_API_KEY", "Google API key", "AIza", r"\w-", 35),
    _kind("GOOGLE_TOKEN", "Google token", r"ya29\.", r"\w.-", 20),
    _kind("GOOGLE_TOKEN", "Google token", "1//0", r"\w-", 30),
    _kind("GOOGLE_CLIENT_SECRET", "Google client secret", "GOCSPX-", r"\w-", 20),
    _kind("STRIPE_KEY", "Stripe key", "[srp]k_(?:live|test)_", _ALPHANUMERIC + "_", 16, "k_live_", "k_test_"),
    _kind("STRIPE_KEY", "Stripe key", "whsec_", r"\w+/", 24),
    _kind(
        "GITLAB_TOKEN",
        "GitLab token",
        "gl(?:pat|dt|rt|ptt|ft|soat|cbt|imt|oas|agent)-",
        r"\w-",
        16,
        *("glpat-", "gldt-", "glrt-", "glptt-", "glft-", "glsoat-", "glcbt-", "glimt-", "gloas-", "glagent-"),
    ),
    _kind("HF_TOKEN", "Hugging Face token", "hf_", _ALPHANUMERIC, 30),
    _kind("NPM_TOKEN", "npm token", "npm_", _ALPHANUMERIC, 30),
    _kind("PYPI_TOKEN", "PyPI token", "pypi-Ag", r"\w-", 40),
    _kind("CF_TOKEN", "Cloudflare token", "cfut_", r"\w-", 32),
    TokenKind("MOL_PK", "Molecule key", "mol_pk_", r"\w-", 20, ("mol_pk_",), log_minimum=8),
    TokenKind("CTX7_TOKEN", "Context7 token", "ctx7_", r"\w-", 8, ("ctx7_",), log_minimum=1),
    _kind("GROQ_KEY", "Groq key", "gsk_", _ALPHANUMERIC, 40),
    _kind("XAI_KEY", "xAI key", "xai-", _ALPHANUMERIC, 40),
    _kind("REPLICATE_TOKEN", "Replicate token", "r8_", r"\w-", 30),
    _kind("PERPLEXITY_KEY", "Perplexity key", "pplx-", _ALPHANUMERIC, 32),
    _kind("TAVILY_KEY", "Tavily key", "tvly-", r"\w-", 20),
    _kind("LANGSMITH_KEY", "LangSmith key", "lsv2_(?:pt|sk)_", r"\w", 32, "lsv2_"),
    _kind("SENDGRID_KEY", "SendGrid key", r"SG\.", r"\w.-", 40),
    _kind("MAILGUN_KEY", "Mailgun key", "key-", _HEX, 32),
    _kind("TWILIO_KEY", "Twilio key", "SK", _HEX, 32),
    _kind("TELEGRAM_TOKEN", "Telegram bot token", "[0-9]{8,10}:AA", r"\w-", 30, ":AA"),
    _kind("DIGITALOCEAN_TOKEN", "DigitalOcean token", "do[opr]_v1_", _HEX, 40, "_v1_"),
    _kind("SHOPIFY_TOKEN", "Shopify token", "shp(?:at|ca|pa|ss)_", "0-9a-fA-F", 32, "shp"),
    _kind("DATABRICKS_TOKEN", "Databricks token", "dapi", _HEX, 32),
    _kind("VAULT_TOKEN", "Vault token", r"hv[sbr]\.", r"\w-", 24, "hvs.", "hvb.", "hvr."),
    _kind("DOCKER_TOKEN", "Docker Hub token", "dckr_[po]at_", r"\w-", 20, "dckr_"),
    _kind("GRAFANA_TOKEN", "Grafana token", "gl(?:sa|c)_", r"\w+/=", 32, "glsa_", "glc_"),
    _kind("LINEAR_KEY", "Linear key", "lin_api_", _ALPHANUMERIC, 32),
    _kind("NOTION_TOKEN", "Notion token", "(?:ntn|secret)_", _ALPHANUMERIC, 40, "ntn_", "secret_"),
    _kind("AIRTABLE_TOKEN", "Airtable token", r"pat[A-Za-z0-9]{14}\.", _HEX, 40, "pat"),
    _kind("POSTMAN_KEY", "Postman key", "PMAK-", r"\w-", 24),
    _kind("FIGMA_TOKEN", "Figma token", "figd_", r"\w-", 30),
    _kind("SQUARE_TOKEN", "Square token", "sq0[a-z]{3}-", r"\w-", 22, "sq0"),
    _kind("NEW_RELIC_KEY", "New Relic key", "NRAK-", "0-9A-Z", 24),
    _kind("SENTRY_TOKEN", "Sentry token", "sntry[su]_", r"\w+/=", 40, "sntry"),
    _kind("SUPABASE_KEY", "Supabase key", "(?:sbp_|sb_secret_)", r"\w-", 20, "sbp_", "sb_secret_"),
    _kind(
        "ATLASSIAN_TOKEN", "Atlassian token", "AT(?:ATT3|CTT3|BB)", r"\w=-", 24, "ATATT3", "ATCTT3", "ATBB"
    ),
    _kind("RUBYGEMS_KEY", "RubyGems key", "rubygems_", _HEX, 40),
    _kind("HEROKU_KEY", "Heroku key", "HRKU-", r"\w-", 30),
    _kind("FLY_TOKEN", "Fly.io token", "fm[12]_", r"\w+/=", 40, "fm1_", "fm2_"),
    _kind("AZURE_SECRET", "Azure client secret", "[A-Za-z0-9_~.]{3}[0-9]Q~", r"\w~.-", 28, "Q~"),
    _kind("AGE_KEY", "age secret key", "AGE-SECRET-KEY-1", "0-9A-Z", 40),
)
