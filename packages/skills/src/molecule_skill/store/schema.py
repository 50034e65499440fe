"""Schema of the SQLite run store as the sum of its migrations; `user_version` counts those applied."""

MIGRATIONS = (
    """
    CREATE TABLE runs (
        id INTEGER PRIMARY KEY, run_id TEXT NOT NULL UNIQUE, agent TEXT NOT NULL, skill TEXT NOT NULL,
        principal TEXT NOT NULL, org_id TEXT, session_id TEXT, idempotency_key TEXT, body_hash TEXT NOT NULL,
        arguments TEXT NOT NULL, auth TEXT NOT NULL, deadline REAL, created_at REAL NOT NULL,
        state TEXT NOT NULL, attempt INTEGER NOT NULL, fence INTEGER NOT NULL, owner TEXT NOT NULL,
        last_seq INTEGER NOT NULL, updated_at REAL NOT NULL, result TEXT, failure TEXT
    ) STRICT;
    CREATE UNIQUE INDEX runs_key ON runs (agent, principal, idempotency_key)
        WHERE idempotency_key IS NOT NULL;
    CREATE INDEX runs_principal ON runs (agent, principal, id);
    CREATE INDEX runs_open ON runs (agent, owner) WHERE state IN ('queued', 'running', 'waiting');
    CREATE TABLE events (
        run_id TEXT NOT NULL, seq INTEGER NOT NULL, kind TEXT NOT NULL, payload TEXT NOT NULL,
        at REAL NOT NULL, attempt INTEGER NOT NULL, ordinal INTEGER,
        PRIMARY KEY (run_id, seq)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE requests (
        id TEXT PRIMARY KEY, kind TEXT NOT NULL, workspace_id TEXT NOT NULL, requester TEXT NOT NULL,
        run_id TEXT, key TEXT, ordinal INTEGER, fingerprint TEXT, prompt_json TEXT NOT NULL,
        state TEXT NOT NULL, answer_json TEXT, answered_by TEXT, created_at REAL NOT NULL,
        expires_at REAL NOT NULL, answered_at REAL, attempt INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX requests_run ON requests (run_id, created_at);
    CREATE INDEX requests_pending ON requests (run_id) WHERE state = 'pending';
    CREATE TABLE journal (
        run_id TEXT NOT NULL, ordinal INTEGER NOT NULL, kind TEXT NOT NULL, key TEXT,
        fingerprint TEXT NOT NULL, state TEXT NOT NULL, attempt INTEGER NOT NULL, runs INTEGER NOT NULL,
        value TEXT,
        PRIMARY KEY (run_id, ordinal)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE artifacts (
        version INTEGER PRIMARY KEY, run_id TEXT NOT NULL, name TEXT NOT NULL, mime_type TEXT NOT NULL,
        size_bytes INTEGER NOT NULL, sha256 TEXT NOT NULL, attempt INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX artifacts_run ON artifacts (run_id, name);
    CREATE INDEX artifacts_digest ON artifacts (sha256);
    """,
    """
    CREATE TABLE agent_state (scope TEXT PRIMARY KEY, value TEXT NOT NULL, version INTEGER NOT NULL) STRICT;
    CREATE INDEX runs_final ON runs (updated_at) WHERE state NOT IN ('queued', 'running', 'waiting');
    """,
    """
    ALTER TABLE runs ADD COLUMN origin TEXT;
    ALTER TABLE runs ADD COLUMN cancel_asked INTEGER NOT NULL DEFAULT 0;
    DROP INDEX runs_final;
    ALTER TABLE events RENAME TO old_events;
    CREATE TABLE events (
        run INTEGER NOT NULL, seq INTEGER NOT NULL, kind TEXT NOT NULL, payload TEXT NOT NULL,
        at REAL NOT NULL, attempt INTEGER NOT NULL, ordinal INTEGER,
        PRIMARY KEY (run, seq)
    ) STRICT, WITHOUT ROWID;
    INSERT INTO events SELECT runs.id, seq, kind, payload, at, old_events.attempt, ordinal
        FROM old_events JOIN runs USING (run_id);
    DROP TABLE old_events;
    """,
)
