CREATE TABLE message_events (
    task_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    workspace_id TEXT NOT NULL,
    tenant TEXT DEFAULT '' NOT NULL,
    org_id TEXT NOT NULL,
    message_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    dialect TEXT DEFAULT '1.0' NOT NULL,
    payload BYTEA NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_message_events PRIMARY KEY (task_id, seq, workspace_id, tenant)
);

CREATE INDEX ix_message_events_of_message ON message_events (message_id);

CREATE INDEX ix_message_events_age ON message_events (created_at);

CREATE INDEX ix_message_events_of_workspace ON message_events (workspace_id);

CREATE TABLE message_transitions (
    event_id BIGINT NOT NULL,
    org_id TEXT NOT NULL,
    message_id TEXT NOT NULL,
    target_id TEXT NOT NULL,
    caller TEXT NOT NULL,
    kind TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    lease_epoch INTEGER NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    also_accepted BOOLEAN DEFAULT false NOT NULL,
    also_told BOOLEAN DEFAULT false NOT NULL,
    CONSTRAINT pk_message_transitions PRIMARY KEY (event_id),
    CONSTRAINT ck_message_transitions_kind_known CHECK (kind = 'accepted' OR kind = 'leased' OR kind = 'retry' OR kind = 'released' OR kind = 'answered' OR kind = 'failed' OR kind = 'expired' OR kind = 'cancelled')
);

CREATE INDEX ix_message_transitions_list ON message_transitions (org_id, event_id);

CREATE INDEX ix_message_transitions_of_message ON message_transitions (message_id, event_id);

CREATE INDEX ix_message_transitions_of_target ON message_transitions (target_id, event_id);

CREATE TABLE events (
    id BIGINT NOT NULL,
    org_id TEXT NOT NULL,
    event_type TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    parties JSON,
    payload JSON NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_events PRIMARY KEY (id)
);

CREATE INDEX ix_events_of_workspace ON events (workspace_id, id);

CREATE INDEX ix_events_list ON events (org_id, id);

CREATE TABLE plugin_revocations (
    version BIGINT NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
    updated_by TEXT NOT NULL,
    body JSON NOT NULL,
    CONSTRAINT pk_plugin_revocations PRIMARY KEY (version)
);

CREATE TABLE counters (
    name TEXT NOT NULL,
    value BIGINT NOT NULL,
    CONSTRAINT pk_counters PRIMARY KEY (name)
);

CREATE TABLE replicas (
    id TEXT NOT NULL,
    seen_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_replicas PRIMARY KEY (id)
);

CREATE TABLE loops (
    name TEXT NOT NULL,
    last_tick_at TIMESTAMP WITH TIME ZONE,
    lease_owner TEXT NOT NULL,
    lease_until TIMESTAMP WITH TIME ZONE NOT NULL,
    fence BIGINT NOT NULL,
    CONSTRAINT pk_loops PRIMARY KEY (name)
);

CREATE TABLE orgs (
    id TEXT NOT NULL,
    slug TEXT NOT NULL,
    name TEXT NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_orgs PRIMARY KEY (id),
    CONSTRAINT uq_orgs_slug UNIQUE (slug)
);

CREATE TABLE users (
    name TEXT NOT NULL,
    platform_admin BOOLEAN DEFAULT false NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_users PRIMARY KEY (name)
);

CREATE TABLE signing_keys (
    kid TEXT NOT NULL,
    alg TEXT NOT NULL,
    public JSON NOT NULL,
    private_sealed TEXT NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    retired_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_signing_keys PRIMARY KEY (kid)
);

CREATE TABLE idempotency (
    scope TEXT NOT NULL,
    key TEXT NOT NULL,
    body_hash TEXT NOT NULL,
    replica TEXT NOT NULL,
    status INTEGER,
    answer_sealed TEXT,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    expires_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_idempotency PRIMARY KEY (scope, key)
);

CREATE INDEX ix_idempotency_expires_at ON idempotency (expires_at);

CREATE TABLE plugin_locks (
    org_id TEXT NOT NULL,
    source TEXT NOT NULL,
    resolved TEXT NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    version TEXT NOT NULL,
    content_sha256 TEXT NOT NULL,
    manifest_sha256 TEXT NOT NULL,
    archive_sha256 TEXT NOT NULL,
    signed_by JSON NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_plugin_locks PRIMARY KEY (org_id, source),
    CONSTRAINT fk_plugin_locks_org_id FOREIGN KEY(org_id) REFERENCES orgs (id)
);

CREATE TABLE org_plugin_allowlist (
    org_id TEXT NOT NULL,
    plugin TEXT NOT NULL,
    place INTEGER NOT NULL,
    enabled_by TEXT NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_org_plugin_allowlist PRIMARY KEY (org_id, plugin),
    CONSTRAINT fk_org_plugin_allowlist_org_id FOREIGN KEY(org_id) REFERENCES orgs (id)
);

CREATE TABLE org_plugin_keys (
    org_id TEXT NOT NULL,
    key_id TEXT NOT NULL,
    key TEXT NOT NULL,
    name TEXT NOT NULL,
    allow JSON NOT NULL,
    place INTEGER NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_org_plugin_keys PRIMARY KEY (org_id, key_id),
    CONSTRAINT fk_org_plugin_keys_org_id FOREIGN KEY(org_id) REFERENCES orgs (id)
);

CREATE TABLE memberships (
    "user" TEXT NOT NULL,
    org_id TEXT NOT NULL,
    role TEXT NOT NULL,
    disabled BOOLEAN DEFAULT false NOT NULL,
    last_login_at TIMESTAMP WITH TIME ZONE,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_memberships PRIMARY KEY ("user", org_id),
    CONSTRAINT ck_memberships_role_known CHECK (role IN ('viewer', 'member', 'admin', 'owner')),
    CONSTRAINT fk_memberships_user FOREIGN KEY("user") REFERENCES users (name),
    CONSTRAINT fk_memberships_org_id FOREIGN KEY(org_id) REFERENCES orgs (id)
);

CREATE TABLE login_codes (
    code_hash TEXT NOT NULL,
    org_id TEXT NOT NULL,
    "user" TEXT NOT NULL,
    role TEXT NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    expires_at TIMESTAMP WITH TIME ZONE NOT NULL,
    used_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_login_codes PRIMARY KEY (code_hash),
    CONSTRAINT fk_login_codes_org_id FOREIGN KEY(org_id) REFERENCES orgs (id)
);

CREATE TABLE sessions (
    token_hash TEXT NOT NULL,
    org_id TEXT NOT NULL,
    "user" TEXT NOT NULL,
    role TEXT NOT NULL,
    scopes JSON NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    expires_at TIMESTAMP WITH TIME ZONE NOT NULL,
    seen_at TIMESTAMP WITH TIME ZONE NOT NULL,
    revoked_at TIMESTAMP WITH TIME ZONE,
    token_id TEXT,
    CONSTRAINT pk_sessions PRIMARY KEY (token_hash),
    CONSTRAINT fk_sessions_org_id FOREIGN KEY(org_id) REFERENCES orgs (id)
);

CREATE TABLE stream_tickets (
    ticket_hash TEXT NOT NULL,
    org_id TEXT NOT NULL,
    credential TEXT NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    expires_at TIMESTAMP WITH TIME ZONE NOT NULL,
    used_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_stream_tickets PRIMARY KEY (ticket_hash),
    CONSTRAINT fk_stream_tickets_org_id FOREIGN KEY(org_id) REFERENCES orgs (id)
);

CREATE TABLE workspaces (
    id TEXT NOT NULL,
    org_id TEXT NOT NULL,
    name TEXT NOT NULL,
    role TEXT NOT NULL,
    tier INTEGER NOT NULL,
    status TEXT NOT NULL,
    status_reason TEXT NOT NULL,
    runtime TEXT NOT NULL,
    external BOOLEAN NOT NULL,
    url TEXT NOT NULL,
    delivery_mode TEXT NOT NULL,
    protocols JSON,
    dispatch_secret_sealed TEXT,
    agent_card JSON,
    card_signature TEXT DEFAULT 'unsigned' NOT NULL,
    parent_id TEXT,
    visibility TEXT NOT NULL,
    isolated BOOLEAN NOT NULL,
    awareness_namespace TEXT NOT NULL,
    workspace_dir TEXT,
    workspace_access TEXT NOT NULL,
    budget_limit BIGINT,
    monthly_spend BIGINT NOT NULL,
    spend_period TEXT NOT NULL,
    max_concurrent_tasks INTEGER,
    hibernation_idle_minutes INTEGER,
    capabilities JSON,
    idle_timeout_seconds INTEGER,
    runtime_metadata JSON,
    needs_restart BOOLEAN NOT NULL,
    active_tasks INTEGER NOT NULL,
    current_task TEXT NOT NULL,
    last_error_rate FLOAT NOT NULL,
    last_sample_error TEXT NOT NULL,
    uptime_seconds INTEGER NOT NULL,
    last_heartbeat_at TIMESTAMP WITH TIME ZONE,
    liveness_expires_at TIMESTAMP WITH TIME ZONE,
    last_activity_at TIMESTAMP WITH TIME ZONE,
    last_outbound_at TIMESTAMP WITH TIME ZONE,
    claimed_at TIMESTAMP WITH TIME ZONE,
    claim_until TIMESTAMP WITH TIME ZONE,
    claim_reads_secrets BOOLEAN DEFAULT false NOT NULL,
    removed_at TIMESTAMP WITH TIME ZONE,
    x FLOAT NOT NULL,
    y FLOAT NOT NULL,
    collapsed BOOLEAN NOT NULL,
    provisioning_since TIMESTAMP WITH TIME ZONE,
    provision_attempts INTEGER DEFAULT '0' NOT NULL,
    restart_reason TEXT,
    session_ended_at TIMESTAMP WITH TIME ZONE,
    start_epoch INTEGER DEFAULT '0' NOT NULL,
    started_by TEXT,
    stop_through INTEGER,
    restart_owed TEXT,
    version INTEGER NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_workspaces PRIMARY KEY (id),
    CONSTRAINT ck_workspaces_status_known CHECK (status IN ('provisioning', 'online', 'degraded', 'offline', 'paused', 'hibernating', 'hibernated', 'awaiting_agent', 'failed', 'removed')),
    CONSTRAINT ck_workspaces_delivery_mode_known CHECK (delivery_mode IN ('push', 'poll')),
    CONSTRAINT ck_workspaces_visibility_known CHECK (visibility IN ('private', 'public')),
    CONSTRAINT ck_workspaces_workspace_access_known CHECK (workspace_access IN ('none', 'read_only', 'read_write')),
    CONSTRAINT ck_workspaces_card_signature_known CHECK (card_signature IN ('unsigned', 'verified', 'unverified')),
    CONSTRAINT fk_workspaces_org_id FOREIGN KEY(org_id) REFERENCES orgs (id),
    CONSTRAINT fk_workspaces_parent_id FOREIGN KEY(parent_id) REFERENCES workspaces (id)
);

CREATE INDEX ix_workspaces_org ON workspaces (org_id, created_at, id);

CREATE INDEX ix_workspaces_restart_owed ON workspaces (restart_owed);

CREATE INDEX ix_workspaces_siblings ON workspaces (org_id, parent_id, created_at, id);

CREATE INDEX ix_workspaces_parent_id ON workspaces (parent_id);

CREATE INDEX ix_workspaces_liveness ON workspaces (status, liveness_expires_at);

CREATE INDEX ix_workspaces_stop_through ON workspaces (stop_through);

CREATE TABLE secrets (
    org_id TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    key TEXT NOT NULL,
    nonce BYTEA NOT NULL,
    ciphertext BYTEA NOT NULL,
    key_id TEXT NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_secrets PRIMARY KEY (org_id, workspace_id, key),
    CONSTRAINT fk_secrets_org_id FOREIGN KEY(org_id) REFERENCES orgs (id)
);

CREATE TABLE security_log (
    id TEXT NOT NULL,
    org_id TEXT NOT NULL,
    principal TEXT NOT NULL,
    action TEXT NOT NULL,
    object TEXT NOT NULL,
    request_id TEXT NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_security_log PRIMARY KEY (id),
    CONSTRAINT fk_security_log_org_id FOREIGN KEY(org_id) REFERENCES orgs (id)
);

CREATE INDEX ix_security_log_org ON security_log (org_id, id);

CREATE TABLE messages (
    id TEXT NOT NULL,
    org_id TEXT NOT NULL,
    seq BIGINT NOT NULL,
    target_id TEXT NOT NULL,
    caller TEXT NOT NULL,
    caller_name TEXT NOT NULL,
    kind TEXT NOT NULL,
    method TEXT NOT NULL,
    dialect TEXT NOT NULL,
    body BYTEA NOT NULL,
    body_hash TEXT NOT NULL,
    message_ref TEXT NOT NULL,
    context_id TEXT NOT NULL,
    priority INTEGER NOT NULL,
    max_attempts INTEGER NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    deadline_at TIMESTAMP WITH TIME ZONE NOT NULL,
    waits_until TIMESTAMP WITH TIME ZONE NOT NULL,
    run_limit_seconds INTEGER,
    idempotency_key TEXT,
    traceparent TEXT,
    request_id TEXT,
    extensions TEXT,
    tenant TEXT DEFAULT '' NOT NULL,
    delegation JSON,
    activity_id TEXT NOT NULL,
    status TEXT NOT NULL,
    task_state TEXT,
    task_id TEXT NOT NULL,
    agent_task_id TEXT,
    delegation_id TEXT,
    parent_message_id TEXT,
    attempts INTEGER NOT NULL,
    releases INTEGER DEFAULT '0' NOT NULL,
    not_before TIMESTAMP WITH TIME ZONE,
    lease_epoch INTEGER NOT NULL,
    lease_kind TEXT,
    lease_owner TEXT,
    lease_token_hash TEXT,
    lease_expires_at TIMESTAMP WITH TIME ZONE,
    leased_at TIMESTAMP WITH TIME ZONE,
    worker TEXT,
    reply_hash TEXT,
    held_by TEXT,
    held_until TIMESTAMP WITH TIME ZONE,
    seen_at TIMESTAMP WITH TIME ZONE,
    result BYTEA,
    error JSON,
    dead_letter BOOLEAN NOT NULL,
    cancel_requested BOOLEAN NOT NULL,
    finished_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_messages PRIMARY KEY (id),
    CONSTRAINT ck_messages_status_known CHECK (status = 'accepted' OR status = 'leased' OR status = 'answered' OR status = 'failed' OR status = 'expired' OR status = 'cancelled'),
    CONSTRAINT ck_messages_kind_known CHECK (kind = 'message' OR kind = 'reply' OR kind = 'delegation' OR kind = 'delegation_result' OR kind = 'schedule' OR kind = 'channel' OR kind = 'system'),
    CONSTRAINT ck_messages_lease_kind_known CHECK (lease_kind = 'dispatch' OR lease_kind = 'inbox' OR lease_kind = 'cursor'),
    CONSTRAINT fk_messages_target_id FOREIGN KEY(target_id) REFERENCES workspaces (id)
);

CREATE INDEX ix_messages_task ON messages (task_id, target_id) WHERE task_id != id;

CREATE INDEX ix_messages_sent ON messages (caller, seq);

CREATE INDEX ix_messages_dead ON messages (target_id, status, seq) WHERE dead_letter IS true;

CREATE INDEX ix_messages_reply ON messages (reply_hash, target_id) WHERE reply_hash IS NOT NULL;

CREATE INDEX ix_messages_queue ON messages (target_id, status, seq);

CREATE UNIQUE INDEX ix_messages_key ON messages (idempotency_key, caller, target_id) WHERE idempotency_key IS NOT NULL;

CREATE INDEX ix_messages_deadline ON messages (status, deadline_at) WHERE finished_at IS NULL;

CREATE INDEX ix_messages_agent_task ON messages (agent_task_id, target_id) WHERE agent_task_id IS NOT NULL;

CREATE INDEX ix_messages_delegation ON messages (delegation_id) WHERE delegation_id IS NOT NULL;

CREATE INDEX ix_messages_parent ON messages (parent_message_id) WHERE parent_message_id IS NOT NULL;

CREATE INDEX ix_messages_context ON messages (context_id, target_id, caller, seq);

CREATE INDEX ix_messages_repeat ON messages (caller, target_id, message_ref, body_hash) WHERE body_hash != '';

CREATE TABLE activity_logs (
    id TEXT NOT NULL,
    org_id TEXT NOT NULL,
    seq BIGINT NOT NULL,
    workspace_id TEXT NOT NULL,
    activity_type TEXT NOT NULL,
    caller TEXT NOT NULL,
    source_id TEXT NOT NULL,
    target_id TEXT NOT NULL,
    method TEXT NOT NULL,
    summary TEXT NOT NULL,
    status TEXT NOT NULL,
    request_body JSON,
    response_body JSON,
    tool_trace JSON,
    metadata JSON,
    error_detail TEXT NOT NULL,
    duration_ms BIGINT,
    message_id TEXT,
    origin TEXT NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_activity_logs PRIMARY KEY (id),
    CONSTRAINT uq_activity_logs_seq UNIQUE (seq),
    CONSTRAINT fk_activity_logs_workspace_id FOREIGN KEY(workspace_id) REFERENCES workspaces (id)
);

CREATE INDEX ix_activity_logs_type ON activity_logs (workspace_id, activity_type, seq);

CREATE INDEX ix_activity_logs_list ON activity_logs (workspace_id, seq);

CREATE TABLE workspace_plugins (
    workspace_id TEXT NOT NULL,
    org_id TEXT NOT NULL,
    name TEXT NOT NULL,
    version TEXT NOT NULL,
    source TEXT NOT NULL,
    resolved_ref TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    signer TEXT NOT NULL,
    state TEXT NOT NULL,
    about JSON NOT NULL,
    ledger JSON NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    installed_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_workspace_plugins PRIMARY KEY (workspace_id, name),
    CONSTRAINT ck_workspace_plugins_state_known CHECK (state IN ('recorded', 'installed', 'failed', 'quarantined', 'blocked')),
    CONSTRAINT fk_workspace_plugins_workspace_id FOREIGN KEY(workspace_id) REFERENCES workspaces (id),
    CONSTRAINT fk_workspace_plugins_org_id FOREIGN KEY(org_id) REFERENCES orgs (id)
);

CREATE TABLE tasks (
    workspace_id TEXT NOT NULL,
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    org_id TEXT NOT NULL,
    owner TEXT NOT NULL,
    context_id TEXT NOT NULL,
    message_id TEXT NOT NULL,
    is_agents BOOLEAN NOT NULL,
    agent_task_id TEXT,
    state TEXT NOT NULL,
    status_at TIMESTAMP WITH TIME ZONE NOT NULL,
    last_seq INTEGER NOT NULL,
    reader TEXT NOT NULL,
    snapshot BYTEA,
    snapshot_seq INTEGER NOT NULL,
    artifact_bytes BIGINT DEFAULT '0' NOT NULL,
    report_lease TEXT DEFAULT '' NOT NULL,
    report_number INTEGER DEFAULT '0' NOT NULL,
    report_seq INTEGER DEFAULT '0' NOT NULL,
    look_at TIMESTAMP WITH TIME ZONE,
    looks INTEGER NOT NULL,
    watchers INTEGER NOT NULL,
    cancel_requested BOOLEAN NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    finished_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_tasks PRIMARY KEY (workspace_id, tenant, id),
    CONSTRAINT fk_tasks_workspace_id FOREIGN KEY(workspace_id) REFERENCES workspaces (id),
    CONSTRAINT fk_tasks_org_id FOREIGN KEY(org_id) REFERENCES orgs (id)
);

CREATE INDEX ix_tasks_look ON tasks (look_at) WHERE look_at IS NOT NULL;

CREATE INDEX ix_tasks_agent_task ON tasks (agent_task_id, workspace_id) WHERE agent_task_id IS NOT NULL;

CREATE INDEX ix_tasks_finished ON tasks (finished_at);

CREATE INDEX ix_tasks_list ON tasks (workspace_id, owner, status_at, id);

CREATE INDEX ix_tasks_named ON tasks (id);

CREATE TABLE push_configs (
    id TEXT NOT NULL,
    org_id TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    tenant TEXT NOT NULL,
    task_id TEXT NOT NULL,
    config_id TEXT NOT NULL,
    owner TEXT NOT NULL,
    dialect TEXT NOT NULL,
    url TEXT NOT NULL,
    secret_sealed TEXT,
    config JSON NOT NULL,
    failures INTEGER NOT NULL,
    disabled_at TIMESTAMP WITH TIME ZONE,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_push_configs PRIMARY KEY (id),
    CONSTRAINT uq_push_configs_workspace_id_tenant_task_id_config_id UNIQUE (workspace_id, tenant, task_id, config_id),
    CONSTRAINT fk_push_configs_org_id FOREIGN KEY(org_id) REFERENCES orgs (id),
    CONSTRAINT fk_push_configs_workspace_id FOREIGN KEY(workspace_id) REFERENCES workspaces (id)
);

CREATE TABLE delegations (
    id TEXT NOT NULL,
    seq BIGINT NOT NULL,
    org_id TEXT NOT NULL,
    source TEXT NOT NULL,
    source_id TEXT NOT NULL,
    target_id TEXT NOT NULL,
    task TEXT NOT NULL,
    body_hash TEXT NOT NULL,
    idempotency_key TEXT,
    message_id TEXT,
    parent_id TEXT,
    root_id TEXT NOT NULL,
    depth INTEGER NOT NULL,
    chain JSON NOT NULL,
    calls INTEGER NOT NULL,
    deadline_at TIMESTAMP WITH TIME ZONE NOT NULL,
    deliverables JSON NOT NULL,
    context JSON,
    report TEXT NOT NULL,
    status TEXT NOT NULL,
    outcome TEXT,
    result JSON,
    error JSON,
    missing JSON,
    recorded BOOLEAN NOT NULL,
    retry_of TEXT,
    attempts INTEGER NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
    dispatched_at TIMESTAMP WITH TIME ZONE,
    finished_at TIMESTAMP WITH TIME ZONE,
    reported_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_delegations PRIMARY KEY (id),
    CONSTRAINT ck_delegations_status_known CHECK (status IN ('pending', 'dispatched', 'queued', 'completed', 'failed')),
    CONSTRAINT ck_delegations_outcome_known CHECK (outcome IN ('completed', 'failed', 'expired', 'cancelled', 'rejected')),
    CONSTRAINT fk_delegations_org_id FOREIGN KEY(org_id) REFERENCES orgs (id),
    CONSTRAINT fk_delegations_target_id FOREIGN KEY(target_id) REFERENCES workspaces (id)
);

CREATE INDEX ix_delegations_deadline ON delegations (status, deadline_at);

CREATE INDEX ix_delegations_root ON delegations (root_id);

CREATE UNIQUE INDEX ix_delegations_key ON delegations (idempotency_key, source) WHERE idempotency_key IS NOT NULL;

CREATE INDEX ix_delegations_finished ON delegations (finished_at);

CREATE INDEX ix_delegations_parent ON delegations (parent_id) WHERE parent_id IS NOT NULL;

CREATE INDEX ix_delegations_message ON delegations (message_id) WHERE message_id IS NOT NULL;

CREATE INDEX ix_delegations_of_source ON delegations (source_id, seq);

CREATE INDEX ix_delegations_of_target ON delegations (target_id, seq);

CREATE TABLE lineage (
    ancestor_id TEXT NOT NULL,
    descendant_id TEXT NOT NULL,
    distance INTEGER NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_lineage PRIMARY KEY (ancestor_id, descendant_id),
    CONSTRAINT fk_lineage_ancestor_id FOREIGN KEY(ancestor_id) REFERENCES workspaces (id),
    CONSTRAINT fk_lineage_descendant_id FOREIGN KEY(descendant_id) REFERENCES workspaces (id)
);

CREATE INDEX ix_lineage_descendant_id ON lineage (descendant_id);

CREATE INDEX ix_lineage_below ON lineage (ancestor_id, created_at, descendant_id);

CREATE TABLE access_grants (
    id TEXT NOT NULL,
    org_id TEXT NOT NULL,
    from_id TEXT NOT NULL,
    to_id TEXT NOT NULL,
    bidirectional BOOLEAN NOT NULL,
    expires_at TIMESTAMP WITH TIME ZONE NOT NULL,
    reason TEXT NOT NULL,
    created_by TEXT NOT NULL,
    revoked_at TIMESTAMP WITH TIME ZONE,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_access_grants PRIMARY KEY (id),
    CONSTRAINT fk_access_grants_org_id FOREIGN KEY(org_id) REFERENCES orgs (id),
    CONSTRAINT fk_access_grants_from_id FOREIGN KEY(from_id) REFERENCES workspaces (id),
    CONSTRAINT fk_access_grants_to_id FOREIGN KEY(to_id) REFERENCES workspaces (id)
);

CREATE INDEX ix_access_grants_from_id ON access_grants (from_id);

CREATE INDEX ix_access_grants_to_id ON access_grants (to_id);

CREATE TABLE tokens (
    id TEXT NOT NULL,
    org_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    workspace_id TEXT,
    token_hash TEXT NOT NULL,
    prefix TEXT NOT NULL,
    name TEXT NOT NULL,
    scopes JSON NOT NULL,
    expires_at TIMESTAMP WITH TIME ZONE,
    created_by TEXT NOT NULL,
    last_used_at TIMESTAMP WITH TIME ZONE,
    revoked_at TIMESTAMP WITH TIME ZONE,
    revoke_reason TEXT,
    recovery_hash TEXT,
    ends_with TEXT DEFAULT '' NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_tokens PRIMARY KEY (id),
    CONSTRAINT ck_tokens_kind_known CHECK (kind IN ('workspace', 'org')),
    CONSTRAINT fk_tokens_org_id FOREIGN KEY(org_id) REFERENCES orgs (id),
    CONSTRAINT fk_tokens_workspace_id FOREIGN KEY(workspace_id) REFERENCES workspaces (id),
    CONSTRAINT uq_tokens_token_hash UNIQUE (token_hash)
);

CREATE INDEX ix_tokens_workspace ON tokens (workspace_id);

CREATE TABLE enrolment_tokens (
    token_hash TEXT NOT NULL,
    org_id TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    scopes JSON NOT NULL,
    created_by TEXT NOT NULL,
    expires_at TIMESTAMP WITH TIME ZONE NOT NULL,
    token_expires_at TIMESTAMP WITH TIME ZONE,
    used_at TIMESTAMP WITH TIME ZONE,
    ends_with TEXT DEFAULT '' NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_enrolment_tokens PRIMARY KEY (token_hash),
    CONSTRAINT fk_enrolment_tokens_org_id FOREIGN KEY(org_id) REFERENCES orgs (id),
    CONSTRAINT fk_enrolment_tokens_workspace_id FOREIGN KEY(workspace_id) REFERENCES workspaces (id)
);

CREATE TABLE task_artifacts (
    workspace_id TEXT NOT NULL,
    tenant TEXT NOT NULL,
    task_id TEXT NOT NULL,
    artifact_hash TEXT NOT NULL,
    CONSTRAINT pk_task_artifacts PRIMARY KEY (workspace_id, tenant, task_id, artifact_hash),
    CONSTRAINT fk_task_artifacts_workspace_id_tenant_task_id FOREIGN KEY(workspace_id, tenant, task_id) REFERENCES tasks (workspace_id, tenant, id) ON DELETE CASCADE
);

CREATE TABLE outbox (
    push_config_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    id TEXT NOT NULL,
    org_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    next_attempt_at TIMESTAMP WITH TIME ZONE,
    lease_owner TEXT,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_outbox PRIMARY KEY (push_config_id, seq, id),
    CONSTRAINT fk_outbox_push_config_id FOREIGN KEY(push_config_id) REFERENCES push_configs (id) ON DELETE CASCADE
);

CREATE INDEX ix_outbox_due ON outbox (next_attempt_at) WHERE next_attempt_at IS NOT NULL;

CREATE TABLE delegation_evidence (
    id TEXT NOT NULL,
    org_id TEXT NOT NULL,
    delegation_id TEXT NOT NULL,
    deliverable TEXT NOT NULL,
    kind TEXT NOT NULL,
    uri TEXT,
    text TEXT,
    sha256 TEXT,
    media_type TEXT,
    note TEXT,
    by TEXT NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_delegation_evidence PRIMARY KEY (id),
    CONSTRAINT fk_delegation_evidence_org_id FOREIGN KEY(org_id) REFERENCES orgs (id),
    CONSTRAINT fk_delegation_evidence_delegation_id FOREIGN KEY(delegation_id) REFERENCES delegations (id) ON DELETE CASCADE
);

CREATE INDEX ix_delegation_evidence_delegation_id ON delegation_evidence (delegation_id);

INSERT INTO counters (name, value) VALUES ('log', 0);

INSERT INTO counters (name, value) VALUES ('pruned', 0);

INSERT INTO counters (name, value) VALUES ('messages-answered', 0);

INSERT INTO counters (name, value) VALUES ('messages-failed', 0);

INSERT INTO counters (name, value) VALUES ('messages-expired', 0);

INSERT INTO counters (name, value) VALUES ('messages-cancelled', 0);
