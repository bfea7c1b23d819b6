"""Torch7: nn modules and optim.sgd, run by LuaJIT in a process of its own."""
