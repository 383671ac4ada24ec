# SPDX-License-Identifier: Apache-2.0
#
#	make check-conformance	the official suite against a fixture on our core

FIXTURE	:= $(B)/tests/conformance/fixture

$(FIXTURE): $(B)/%: $(B)/%.o $(LIBS)
	@echo "  LINK  $@"
	@$(TCC) $(HARDEN) $(CODEGEN) $(SANFLAGS) $(LINK) -o $@ $(START) $^ $(END)

check-conformance: $(FIXTURE) $(B)/mcp-sandbox
	@tests/conformance/run.py $< || { echo "-- once more" && \
	    tests/conformance/run.py $< && echo "flaky: conformance"; }

.PHONY: check-conformance

-include $(wildcard $(B)/tests/conformance/*.d)
