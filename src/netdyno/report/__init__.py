"""What a run looks like: progress, the console's table, JSON."""
