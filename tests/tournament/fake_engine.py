"""A program that speaks UCI and plays the first legal move; or fails where its argument says, to see what follows."""

import os
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
        if "FAKE_LOG" in os.environ:
            with open(os.environ["FAKE_LOG"], "a") as file:
                print(line.strip(), board.fen(), sep=" | ", file=file)
        if fails == "dies" and searches % 7 == 0:
            sys.exit(1)
        if fails == "hangs" and searches % 7 == 0:
            time.sleep(60)
        move = "e2e5" if fails == "cheats" and searches % 7 == 0 else min(map(str, board.legal_moves))
        score = -900 if fails == "despairs" and searches % 4 else 20
        print(f"info depth 1 score cp {score}", f"bestmove {move} ponder a7a6", sep="\n", flush=True)
    elif words == ["quit"]:
        break
