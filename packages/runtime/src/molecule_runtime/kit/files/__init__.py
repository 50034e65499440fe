"""Files of a workspace: paths, atomic writes and attachments in both directions."""
