"""Run folders: ``run.json`` and ``trials/*.jsonl``; see docs/results.md."""
