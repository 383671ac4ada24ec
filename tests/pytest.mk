# SPDX-License-Identifier: Apache-2.0
#
#	make check-blackbox	the program against the stand-in; MCP_SANDBOX=
#				another program, PYTEST= more arguments
#
# Most of its time is waiting, so it is done by several at once.

check-blackbox: all
	@cd tests && ./twice $$(./venv.sh) -n 3 $(PYTEST) test_*.py

.PHONY: check-blackbox
