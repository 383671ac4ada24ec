# SPDX-License-Identifier: Apache-2.0
#
#	make check-clients	real MCP clients use the program

check-clients: all
	@$$(tests/venv.sh) tests/clients/run.py ./mcp-sandbox

.PHONY: check-clients
