"""From a scenario's PyTorch code to machine code: traced, written as C++, compiled, kept on disk."""
