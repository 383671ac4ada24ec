# SPDX-License-Identifier: Apache-2.0
#
#	make agent-arm64	build/agent/mcp-sandbox-agent-arm64, on any machine
#	make agent-amd64	the same for amd64
#	make agents		both: the server carries the two
#
# Read by the Makefile.  Both come from one source with one C library, made
# here, so that they are the same on either machine; ./mcp-sandbox-agent is
# this machine's.  They are sent to pods, so every byte counts: printf knows no
# fractions, and there is no RELRO, which this library would not apply to a
# static program and which pads one for pages of 64 KB.

AGENT	:= mcp-sandbox-agent api api-files base64 buf digest error files http json jsonw \
	   mono procs serve shell spool task turn utf8 \
	   $(basename $(wildcard agent-*.c jobwire.c))
AGENT_THIRD := $(T)/mbedtls/library/sha256.c $(T)/mbedtls/library/platform_util.c \
	   config/bulk-sha256.c
AGENT_ASM_amd64 := $(T)/openssl/sha256-x86_64.s
AGENTS	:= amd64 arm64
AGENT_T	:= build/agent-third-party
AGENT_BYTES := 153600
AGENT_FLAGS = -std=c11 -D_GNU_SOURCE -Os $(WARN) $(HARDEN) -fPIE \
	  -ffunction-sections -fdata-sections -fno-unwind-tables \
	  -fno-asynchronous-unwind-tables \
	  -ffile-prefix-map=$(CURDIR)=. -iquote . $(THIRD) \
	  -DVERSION='"$(VERSION)"'

triple_amd64 := x86_64-linux-gnu
triple_arm64 := aarch64-linux-gnu

agents: $(AGENTS:%=agent-%)

$(AGENTS:%=agent-%): agent-%: build/agent/mcp-sandbox-agent-%
	@ls -l $<

$(AGENT_T)/unpacked: tools/agent.lock | need-base
	@mkdir -p $(@D)
	@tools/fetch tools/agent.lock $(@D)

$(AGENTS:%=build/agent/%/musl/lib/libc.a): build/agent/%/musl/lib/libc.a: \
    $(AGENT_T)/unpacked
	@tools/need cross_$*
	@echo "  MUSL  $*"
	@rm -rf build/agent/$*/musl-build && mkdir -p build/agent/$*/musl-build
	@cd build/agent/$*/musl-build && { \
	    $(CURDIR)/$(AGENT_T)/musl/configure --disable-shared \
	    --enable-optimize=size --prefix=$(CURDIR)/build/agent/$*/musl \
	    --target=$(triple_$*) CC=$(triple_$*)-gcc \
	    CROSS_COMPILE=$(triple_$*)- && \
	    $(MAKE) install-libs install-headers; } >log 2>&1 || \
	    { tail -20 log; exit 1; }

$(AGENTS:%=build/agent/%/vfprintf.o): build/agent/%/vfprintf.o: \
    build/agent/%/musl/lib/libc.a tools/agent.mk
	@m=$(AGENT_T)/musl o=build/agent/$*/musl-build/obj; \
	    a=$$m/arch/$(firstword $(subst -, ,$(triple_$*))); \
	    sed 's/= fmt_fp(.*/= -1;/' $$m/src/stdio/vfprintf.c >$(@:.o=.c); \
	    $(triple_$*)-gcc -std=c99 -D_XOPEN_SOURCE=700 -Os -fPIE -w \
	    -nostdinc -ffreestanding -ffunction-sections -fdata-sections \
	    -fno-unwind-tables -fno-asynchronous-unwind-tables \
	    -I $$a -I $$m/arch/generic -I $$o/src/internal -I $$m/src/include \
	    -I $$m/src/internal -I $$o/include -I $$m/include \
	    -c -o $@ $(@:.o=.c)

$(AGENTS:%=build/agent/mcp-sandbox-agent-%): build/agent/mcp-sandbox-agent-%: \
    build/agent/%/vfprintf.o \
    $(AGENT:%=%.c) $(wildcard *.h config/*) VERSION tools/agent.mk Makefile $(T)/unpacked
	@echo "  AGENT $*"
	@musl=build/agent/$*/musl cc=$(triple_$*)-gcc; \
	    $$cc -nostdinc -isystem $$musl/include \
	    -isystem $$($$cc -print-file-name=include) $(AGENT_FLAGS) \
	    -nostdlib -static -Wl,-pie,--no-dynamic-linker,-z,text \
	    -Wl,-z,norelro,-z,now,-z,noexecstack,-z,noseparate-code \
	    -Wl,--gc-sections,--build-id=none \
	    -o $@.new $$musl/lib/rcrt1.o $$musl/lib/crti.o $(AGENT:%=%.c) \
	    $(AGENT_THIRD) $(AGENT_ASM_$*) \
	    $(@D)/$*/vfprintf.o $$musl/lib/libc.a $$($$cc -print-libgcc-file-name) \
	    $$musl/lib/crtn.o
	@! $(triple_$*)-nm $@.new | grep -w jsonw_double
	@$(triple_$*)-strip -R .comment $@.new
	@test $$(wc -c <$@.new) -le $(AGENT_BYTES) || { ls -l $@.new; \
	    echo "an agent has at most $(AGENT_BYTES) bytes"; exit 1; }
	@mv $@.new $@

# As the server carries them.
build/agent/%.gz: build/agent/%
	@gzip -9nc $< >$@.new && mv $@.new $@

.PHONY: agents $(AGENTS:%=agent-%)
