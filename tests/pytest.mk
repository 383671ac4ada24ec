# SPDX-License-Identifier: Apache-2.0
#
#	make check-blackbox	the program against the stand-in; MCP_SANDBOX=
#				another program, PYTEST= more arguments

check-blackbox: all
	@cd tests && $$(./venv.sh) -m pytest -q -p no:cacheprovider \
	    $(PYTEST) test_*.py

.PHONY: check-blackbox
