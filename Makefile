# Two commands do everything on a fresh machine: `make demo` and `make test`.
# The first of them makes .venv and installs with the constraints; a second make installs nothing.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
TORCH  ?= torch==2.13.0
STAMP  := $(VENV)/.installed
SIMULATORS := $(VENV)/.simulators
RUN    := SDL_VIDEODRIVER=dummy PYGAME_HIDE_SUPPORT_PROMPT=1
PYTEST := $(RUN) $(BIN)/python -m pytest -q -n 2 --instafail --durations=20

.PHONY: demo test slow full soak lint types docs tutorials learn wheel lowest newest bench clean

demo: $(STAMP)
	rm -rf runs/demo
	$(RUN) $(BIN)/marlenv rollout simple_spread --envs 1024 --steps 100 --max-steps 50 --seed 0 --out runs/demo/simple_spread
	@echo
	$(RUN) $(BIN)/marlenv rollout pettingzoo/simple_tag_v3 --envs 2 --steps 60 --seed 0 --set max_cycles=25 --out runs/demo/simple_tag
	@echo
	cd tutorials/tournament && $(abspath $(BIN))/marlenv tournament run tic_tac_toe.toml --ledger $(CURDIR)/runs/demo/tic_tac_toe.sqlite
	$(BIN)/marlenv tournament report runs/demo/tic_tac_toe.sqlite
	@echo
	@echo "The data are memory-mapped tensordicts under runs/demo; open runs/demo/tic_tac_toe.html in a browser."
	@echo "Next: marlenv list, marlenv show simple_spread, tutorials/."

test: $(STAMP)
	$(PYTEST) -m "not slow"

slow: $(SIMULATORS)
	$(PYTEST) -m slow

full: $(SIMULATORS)
	$(PYTEST) -m "slow or full" --full

soak: $(STAMP)
	$(BIN)/python tests/vector/soak.py --steps 200000

lint: $(STAMP)
	$(BIN)/ruff check marlenv groups scenarios tests tutorials
	$(BIN)/ruff format --check marlenv groups scenarios tests tutorials

types: $(STAMP)
	rm -rf build/types
	$(BIN)/pip install -q --no-deps --target build/types .
	$(BIN)/mypy build/types/marlenv

docs: $(STAMP)
	$(RUN) $(BIN)/python docs/generate.py --check
	$(RUN) NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

tutorials: $(STAMP)
	@for script in tutorials/[0-9]*.py; do echo "== $$script"; $(RUN) $(BIN)/python $$script || exit 1; done

learn: $(STAMP)
	@for run in "ppo_navigation.py" "ppo_navigation.py --critic own" "ppo_gymnasium.py" "qmix_spread.py" "maddpg_tag.py" \
		"self_play.py" "self_play.py --game connect_four" \
		"ppo_scenarios.py" "ppo_scenarios.py --scenario predator_prey" "ppo_scenarios.py --scenario rescue" \
		"ppo_scenarios.py --scenario skirmish" "ppo_scenarios.py --scenario territory"; do \
		echo "== $$run"; $(RUN) $(BIN)/python tutorials/training/$$run --out runs/training || exit 1; done

wheel: $(STAMP)
	PYTHON=$(abspath $(BIN))/python TORCH="$(TORCH)" tests/wheel.sh

lowest: $(STAMP)
	PYTHON=$(abspath $(BIN))/python tests/lowest.sh

newest:
	PYTHON=$(PYTHON) tests/newest.sh

bench: $(STAMP)
	$(BIN)/marlenv bench overhead
	$(BIN)/marlenv bench specs

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --upgrade pip setuptools wheel

$(STAMP): pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/pip install -q $(TORCH)
	$(BIN)/pip install -q -c constraints.txt -e ".[dev]"
	@touch $(STAMP)

# What only the slow tests use: simulators that are heavy, and Stockfish where we may install it.
$(SIMULATORS): tests/simulators.sh | $(STAMP)
	VENV=$(VENV) tests/simulators.sh
	@touch $@

clean:
	rm -rf build dist site runs *.egg-info
