"""How a worker is started: its command line and its environment variables."""
