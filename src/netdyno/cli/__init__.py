"""The command line: one file per command, each parse -> call -> render."""
