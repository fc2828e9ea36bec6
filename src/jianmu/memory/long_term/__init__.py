"""What do I know: knowledge that outlives a session."""
