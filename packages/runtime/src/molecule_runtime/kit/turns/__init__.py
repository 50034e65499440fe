"""Turns: the queue, the runner, the executor and the sink, with or without the a2a-sdk."""
