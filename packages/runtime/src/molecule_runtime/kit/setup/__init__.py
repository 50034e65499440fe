"""Setup of an engine: adapter, plugins, skills, prompt, and the context that the platform gives."""
