"""What the machine is: processor, memory, GPUs, compiler."""
