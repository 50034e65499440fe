"""The command `molecule-skill`: write, try, check, serve and call an agent."""
