# SPDX-License-Identifier: Apache-2.0
#
#	make check		every test that needs no cluster
#	make check-cluster	a real Kubernetes, built and run for the tests
#	make demo		a whole session against the stand-in

TALLY	?= build/tally
TIERS	= unit layers man blackbox conformance

check: all
	@[ -n "$(CI)" ] || rm -rf $(TALLY)
	@for t in $(TIERS); do TALLY=$(TALLY) tests/tally run $$t \
	    $(MAKE) -s --no-print-directory check-$$t || bad=1; done; \
	    TALLY=$(TALLY) tests/tally sum; [ -z "$$bad" ]

check-layers:
	@tests/layers.sh && echo "1 passed, 0 failed"

# A reference to a page that is not installed here is no fault of ours.
check-man: all | need-test
	@tools/man-tables ./mcp-sandbox man/mcp-sandbox.1
	@n=1; for f in man/*.[158]; do \
		mandoc -Tlint -W warning $$f | grep -v 'referenced manual' && \
		    exit 1; n=$$((n + 1)); \
	done; echo "$$n passed, 0 failed"

# Our own sources once more, by the compiler that CC names.
check-compile: $(OBJS) $(MAINS:%.c=$(B)/%.o)
	@echo "$(words $^) passed, 0 failed"

check-reproducible: reproducible
	@echo "1 passed, 0 failed"

check-cluster: all
	@tests/cluster/run.sh

demo: all
	@$$(tests/venv.sh) tests/demo.py

.PHONY: check check-layers check-man check-compile check-reproducible \
    check-cluster demo
