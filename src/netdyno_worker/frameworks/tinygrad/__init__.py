"""Everything netdyno knows of one framework."""
