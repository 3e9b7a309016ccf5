"""Road traffic: :mod:`~marlenv.scenarios.road_traffic.scenario` is the task, the other files its parts."""
