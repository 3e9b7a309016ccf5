"""A game of chess by its legal moves, and from a position."""

import torch
from tensordict import TensorDict
from torchrl.envs import ChessEnv

MATED = "rnb1kbnr/pppp1ppp/8/4p3/5PPq/8/PPPPP2P/RNBQKBNR w KQkq - 1 3"


def run():
    env = ChessEnv(include_fen=True, include_san=True, mask_actions=False)
    td, game = env.reset(), []
    for wanted in ("f3", "e5", "g4", "Qh4"):
        moves = [env.san_moves.index(san) for san in env.get_legal_moves()]
        chosen = min((m for m in moves if env.san_moves[m].startswith(wanted)), default=moves[0])
        td["action"] = torch.tensor(chosen)
        step, td = env.step_and_maybe_reset(td)
        game.append((step["next", "fen"], bool(step["next", "done"]), float(step["next", "reward"])))
    fen = "rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq - 0 1"
    other = ChessEnv(include_fen=True)
    start = other.reset(TensorDict({"fen": fen}), set_state=True)
    try:
        other.reset(TensorDict({"fen": MATED}), set_state=True)
        mated = "went through"
    except ValueError:
        mated = "refused"
    return {
        "game": game,
        "start": start["fen"],
        "mated": mated,
        "turn": bool(start["turn"]),
        "legal": int(start["action_mask"].sum()),
        "moves": len(env.san_moves),
    }
