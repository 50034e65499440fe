"""For authors of adapters: a contract suite to subclass, and checks of a running workspace from outside."""
