"""Rules as envs: whose turn it is, the layout of the data, opponents, random actions, and what ``make`` makes."""
