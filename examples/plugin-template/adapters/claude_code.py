from molecule_plugin import AgentskillsAdaptor as Adaptor  # noqa: F401
