# SPDX-License-Identifier: Apache-2.0
#
#	make server-arm64	build/image/mcp-sandbox-arm64, on any machine
#	make server-amd64	the same for amd64
#	make image OWNER=me	build/image/mcp-sandbox.tar and
#				mcp-sandbox-agent.tar: an OCI archive each, for
#				both machines; no daemon, no network.  And
#				server.json, as github.com/me would publish it
#	make check-image	it can be made, is small, and starts
#
# Read by the Makefile.  A server for another machine is the native build with
# other words on make's command line.

IMAGE	:= build/image
SERVERS	:= $(AGENTS:%=$(IMAGE)/mcp-sandbox-%)

# cross MACHINE: these words.
cross	= ARCH=$1 B=build/musl-$1 THIRDLIB=build/musl-$1/libthird.a \
	  CC=$(triple_$1)-gcc STRIP=$(triple_$1)-strip

$(AGENTS:%=server-%): server-%: $(IMAGE)/mcp-sandbox-%
	@ls -l $<

# Whether it is up to date is known to the make that is called, which looks for
# the agents first: they must be there before.
$(SERVERS): $(IMAGE)/mcp-sandbox-%: agents FORCE
	@mkdir -p $(@D)
	@$(if $(filter $*,$(HOST)),:,tools/need kernel_$* && \
	    tools/kernel-headers $(triple_$*) build/musl-$*/kernel)
	@$(MAKE) --no-print-directory \
	    $(if $(filter $*,$(HOST)),mcp-sandbox,$(call cross,$*) \
	    build/musl-$*/mcp-sandbox.stripped)
	@cp $(if $(filter $*,$(HOST)),mcp-sandbox, \
	    build/musl-$*/mcp-sandbox.stripped) $@.new
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@

image: $(SERVERS)
	@for a in $(AGENTS); do \
	    cp build/agent/mcp-sandbox-agent-$$a $(IMAGE)/; done
	@OWNER=$(OWNER) tools/image mcp-sandbox $(VERSION) $(IMAGE) $(AGENTS)
	@OWNER=$(OWNER) tools/image mcp-sandbox-agent $(VERSION) $(IMAGE) $(AGENTS)

# An image is at most this large, unpacked; the other machine's server starts,
# and has the same tables of pointers as this one's.
IMAGE_MAX := 1500000
check-image: image | need-$(if $(filter arm64,$(HOST)),qemu_amd64,qemu_arm64)
	@for f in $(SERVERS); do \
	    n=$$(wc -c <$$f); [ $$n -le $(IMAGE_MAX) ] || { \
		echo "$$f: $$n bytes, more than $(IMAGE_MAX)"; exit 1; }; done
	@for m in $(filter-out $(HOST),$(AGENTS)); do \
	    qemu-$$(echo $$m | sed 's/arm64/aarch64/; s/amd64/x86_64/')-static \
		$(IMAGE)/mcp-sandbox-$$m --version || exit 1; done
	@for m in $(filter-out $(HOST),$(AGENTS)); do for c in tools --help; do \
	    qemu-$$(echo $$m | sed 's/arm64/aarch64/; s/amd64/x86_64/')-static \
		$(IMAGE)/mcp-sandbox-$$m $$c >$(IMAGE)/said && \
		./mcp-sandbox $$c | cmp - $(IMAGE)/said || exit 1; done; done
	@echo "$(words $(SERVERS)) passed, 0 failed"

.PHONY: image check-image $(AGENTS:%=server-%)
