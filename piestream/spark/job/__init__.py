"""The streaming job: command, connectors, checkpoint, progress."""
