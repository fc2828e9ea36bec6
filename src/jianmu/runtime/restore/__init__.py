"""Takes a snapshot of a tree and puts it back."""
