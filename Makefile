# `make lab` and `make test` need Python 3.11 to 3.13 and make; they build everything else in .venv.
PYTHON ?= python3
BIN := .venv/bin
TENSORFLOWS := 2.16 2.18 2.19 2.20 2.21
MATRIX_TESTS ?= tests/recording

# TensorFlow is quiet only if both are set before it is imported.
export TF_CPP_MIN_LOG_LEVEL := 3
export TF_ENABLE_ONEDNN_OPTS := 0

.PHONY: help lab test lint notebooks exercises site grade slides look bench matrix links constraints clean
.DELETE_ON_ERROR:
.PRECIOUS: .venvs/tf-%/stamp

help:  ## show these targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-14s%s\n", $$1, $$2 }' Makefile

lab: .venv/lab.stamp  ## open the course in JupyterLab
	@test "$$(id -u)" != 0 || case "$(FLAGS)" in *--allow-root*) ;; \
		*) echo "You are root, and JupyterLab starts for root only if told so:" \
			"make lab FLAGS='$(strip --allow-root $(FLAGS))'"; exit 1 ;; esac
	$(BIN)/jupyter lab --LabApp.default_url=/lab/tree/notebooks/00_start_here.ipynb $(FLAGS)

test: .venv/dev.stamp  ## run the unit tests, the doctests and every notebook
	$(BIN)/pytest --numprocesses auto --dist loadfile --no-loadscope-reorder

lint: .venv/dev.stamp  ## check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

notebooks: .venv/dev.stamp  ## run every notebook again, store its outputs, and draw the picture of README.md
	$(BIN)/python tools/notebooks.py
	$(BIN)/python tools/cover.py

exercises: .venv/teach.stamp  ## build notebooks/exercises from notebooks/solutions
	$(BIN)/python tools/exercises.py

site: .venv/site.stamp  ## build the site of the course into build/site/html
	$(BIN)/python site/build.py

grade: .venv/teach.stamp  ## grade a class: make grade COURSE=folder EXERCISE=02_upstream_downstream
	$(BIN)/python tools/grade.py $(COURSE) $(EXERCISE) $(if $(CLUSTER),--cluster $(CLUSTER)) $(FLAGS)

slides: .venv/lab.stamp  ## make slides of a lesson: make slides LESSON=01_chain_rule
	$(BIN)/python tools/slides.py notebooks/$(LESSON).ipynb

look: .venv/dev.stamp  ## draw every golden picture, on paper and live, into build/look/index.html
	$(BIN)/python tools/look.py $(FLAGS)

bench: .venv/dev.stamp  ## run the benchmarks
	set -e; for script in tests/benchmarks/*.py; do echo "== $$script"; $(BIN)/python $$script; done

matrix: $(TENSORFLOWS:%=matrix-%)  ## run the recorder's tests on each supported TensorFlow

matrix-%: .venvs/tf-%/stamp
	.venvs/tf-$*/bin/pytest -q $(MATRIX_TESTS)

links: .venv/bin/python  ## write the links to this repository, from its address on GitHub
	$(BIN)/python tools/links.py

constraints: .venv/bin/python  ## choose the newest versions that pyproject.toml allows
	$(BIN)/pip install --quiet uv
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --all-extras \
		--fork-strategy fewest --no-annotate --custom-compile-command "make constraints" \
		--output-file constraints.txt pyproject.toml

clean:  ## delete the environments and caches
	rm -rf .venv .venvs .mypy_cache .pytest_cache .ruff_cache .hypothesis

# An environment is made again only when the project's requirements change.
.venv/bin/python:
	$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(None if (3, 11) <= v < (3, 14) else \
		"Python 3.11 to 3.13 is needed, this is %d.%d: make PYTHON=python3.12 ..." % v[:2])'
	$(PYTHON) -m venv .venv

# By uv, in a third of pip's time; by pip where uv fails, as with an index that only pip is told of.
.venv/%.stamp: INSTALL = pip install --quiet --constraint constraints.txt
.venv/%.stamp: pyproject.toml constraints.txt | .venv/bin/python
	$(BIN)/$(INSTALL) uv && $(BIN)/uv $(INSTALL) --python .venv --compile-bytecode \
		--editable '.[cpu,$*]' || $(BIN)/$(INSTALL) --editable '.[cpu,$*]'
	touch $@

.venvs/tf-%/stamp: pyproject.toml | .venv/dev.stamp
	$(BIN)/uv venv --quiet --clear --python 3.11 .venvs/tf-$*
	printf 'tensorflow==%s.*\n' $* > .venvs/tf-$*/constraints.txt
	printf 'tensorflow-cpu==%s.*\n' $* >> .venvs/tf-$*/constraints.txt
	$(BIN)/uv pip install --quiet --python .venvs/tf-$* --constraint .venvs/tf-$*/constraints.txt \
		--editable '.[cpu,test]'
	touch $@
