"""What a workspace is told before it starts: environment, files, config.yaml; and whether it can start."""
