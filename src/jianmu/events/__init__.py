"""What happens in a run, told as typed events."""
