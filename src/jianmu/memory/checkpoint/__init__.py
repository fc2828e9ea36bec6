"""Where am I: snapshots of a run."""
