"""Players play a schedule; who is stronger, how sure is that, and is it a number at all."""

from marlenv.tournament.adjudicate import Adjudication, material
from marlenv.tournament.aggregate import (
    aggregate_interval,
    iqm,
    optimality_gap,
    performance_profile,
    probability_of_improvement,
)
from marlenv.tournament.asking import ENDINGS
from marlenv.tournament.bootstrap import Replicates, interval
from marlenv.tournament.cross_play import CrossPlay, cross_play, team_returns
from marlenv.tournament.cycles import CyclicShare, cyclic_share
from marlenv.tournament.defects import defects
from marlenv.tournament.engines import UCIPlayer
from marlenv.tournament.exploitability import exploitability
from marlenv.tournament.game_theory import (
    Decomposition,
    NashAverage,
    alpha_rank,
    cyclic_triads,
    decompose,
    nash_average,
)
from marlenv.tournament.games import Game
from marlenv.tournament.gtp import GTPPlayer
from marlenv.tournament.mcts import MCTSPlayer
from marlenv.tournament.openings import Opening
from marlenv.tournament.play import Arena, Played
from marlenv.tournament.players import CRASH, RESIGN, TIME, ModulePlayer, Player, TabularPlayer, random_player
from marlenv.tournament.ratings import Interval, Ratings, rate
from marlenv.tournament.results import Results
from marlenv.tournament.schedule import (
    SwissRound,
    advance,
    bracket,
    cross_play_teams,
    focal_background,
    gauntlet,
    round_robin,
    swiss_round,
    with_openings,
)
from marlenv.tournament.sequential import SPRT, Estimate, confidence_sequence, expected_score
from marlenv.tournament.store import Ledger
from marlenv.tournament.turns import Turn
from marlenv.tournament.verify import verify

__all__ = [
    "CRASH",
    "ENDINGS",
    "RESIGN",
    "SPRT",
    "TIME",
    "Adjudication",
    "Arena",
    "CrossPlay",
    "CyclicShare",
    "Decomposition",
    "Estimate",
    "GTPPlayer",
    "Game",
    "Interval",
    "Ledger",
    "MCTSPlayer",
    "ModulePlayer",
    "NashAverage",
    "Opening",
    "Played",
    "Player",
    "Ratings",
    "Replicates",
    "Results",
    "SwissRound",
    "TabularPlayer",
    "Turn",
    "UCIPlayer",
    "advance",
    "aggregate_interval",
    "alpha_rank",
    "bracket",
    "confidence_sequence",
    "cross_play",
    "cross_play_teams",
    "cyclic_share",
    "cyclic_triads",
    "decompose",
    "defects",
    "expected_score",
    "exploitability",
    "focal_background",
    "gauntlet",
    "interval",
    "iqm",
    "material",
    "nash_average",
    "optimality_gap",
    "performance_profile",
    "probability_of_improvement",
    "random_player",
    "rate",
    "round_robin",
    "swiss_round",
    "team_returns",
    "verify",
    "with_openings",
]
