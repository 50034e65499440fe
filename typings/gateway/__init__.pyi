"""What the plugin `molecule-a2a` uses of hermes-agent 0.19, installed only in an environment of its own."""
