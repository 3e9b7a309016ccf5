"""Chess as envs: with TorchRL's keys, and with a group per player."""
