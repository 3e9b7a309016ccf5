"""What is only speed: the same bits as the rules give, in one pass over memory on the CPU."""
