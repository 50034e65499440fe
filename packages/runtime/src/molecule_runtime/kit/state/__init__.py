"""State of the process and of its conversations: health, metrics, snapshots, transcripts."""
