"""What a run holds: typed fields, reducers, staged writes."""
