"""A program that speaks GTP and plays the first free cell by name; or fails where its argument says."""

import sys
import time

fails, asked, size, taken = sys.argv[1] if len(sys.argv) > 1 else "", 0, 0, set()


def say(text: str = "", sign: str = "=") -> None:
    print(f"{sign} {text}\n", flush=True)


for line in sys.stdin:
    word, *words = line.split()
    if word == "protocol_version":
        say("2")
    elif word == "boardsize":
        size = int(words[0])
        say()
    elif word == "clear_board":
        taken = set()
        say()
    elif word == "play":
        if words[1] in taken:
            say("illegal move", "?")
        else:
            taken.add(words[1])
            say()
    elif word == "genmove":
        asked += 1
        if fails == "dies" and asked % 5 == 0:
            sys.exit(1)
        if fails == "hangs" and asked % 5 == 0:
            time.sleep(60)
        if fails == "refuses" and asked % 5 == 0:
            say("cannot think", "?")
            continue
        free = sorted(f"{c}{r}" for c in "abcdefghij"[:size] for r in range(1, size + 1) if f"{c}{r}" not in taken)
        move = min(taken) if fails == "cheats" and taken else "resign" if fails == "gives up" else free[0]
        taken.add(move)
        say(move)
    else:
        say("unknown command", "?")
