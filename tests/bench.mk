# SPDX-License-Identifier: Apache-2.0
#
#	make bench		figures beside other servers', into BENCH.md;
#				BENCH_CLUSTER=1 a real Kubernetes too, BENCH_FULL=1
#				the slow rows, BENCH=start some families only

build/bench/probe: bench/probe.c
	@mkdir -p $(@D)
	@gcc -std=c11 -D_GNU_SOURCE -O2 $(WARN) -o $@ $<

bench: all build/bench/probe
	@PYTHONDONTWRITEBYTECODE=1 $$(tests/venv.sh) bench/run.py \
	    build/bench/probe $(BENCH)

.PHONY: bench
