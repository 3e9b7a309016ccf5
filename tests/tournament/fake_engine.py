"""A program that speaks UCI and plays the first legal move; or fails where its argument says, to see what follows."""

import sys
import time

import chess

fails, searches, board = sys.argv[1] if len(sys.argv) > 1 else "", 0, chess.Board()
for line in sys.stdin:
    words = line.split()
    if words == ["uci"]:
        print("id name fake", "option name Skill type spin default 1", "uciok", sep="\n", flush=True)
    elif words == ["isready"]:
        print("readyok", flush=True)
    elif words[:2] == ["position", "fen"]:
        board = chess.Board(" ".join(words[2:8]))
    elif words[:1] == ["go"]:
        searches += 1
        if fails == "dies" and searches % 7 == 0:
            sys.exit(1)
        if fails == "hangs" and searches % 7 == 0:
            time.sleep(60)
        move = "e2e5" if fails == "cheats" and searches % 7 == 0 else min(map(str, board.legal_moves))
        print("info depth 1 score cp 0", f"bestmove {move} ponder a7a6", sep="\n", flush=True)
    elif words == ["quit"]:
        break
