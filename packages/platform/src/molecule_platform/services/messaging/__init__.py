"""Messages and what follows them: tasks, delegations, webhooks, inbox."""
