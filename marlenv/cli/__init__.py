"""The command line: ``marlenv list``, ``show``, ``check``, ``rollout``, ``bench``; one file per command."""
