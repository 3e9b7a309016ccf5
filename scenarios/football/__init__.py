"""Football: :mod:`~marlenv.scenarios.football.scenario` is the task, the other files its parts."""
