# SPDX-License-Identifier: Apache-2.0
#
#	make			./mcp-sandbox, one static program (musl)
#	make check-unit		the unit tests; SAN=address,undefined sanitized
#	make check-valgrind	the same under valgrind
#	make check-fuzz		every fuzzer for FUZZ_SECONDS
#	make reproducible	two builds in two folders are the same bytes
#	make image		container images (tools/image.mk)
#	make install		DESTDIR= PREFIX=
#
# THIRD_PARTY=DIR takes the archives of third-party.lock from DIR, without a
# network.  WERROR=1 (always in CI) makes warnings errors.  The rest of the
# switches: tools/toolchain.mk.

all:

include tools/toolchain.mk

PREFIX	?= /usr/local
BINDIR	?= $(PREFIX)/bin
MANDIR	?= $(PREFIX)/share/man
DOCDIR	?= $(PREFIX)/share/doc/mcp-sandbox
UNITDIR	?= $(PREFIX)/lib/systemd/system
VERSION	:= $(shell cat VERSION)
WERROR	?= $(if $(CI),1)
FUZZ_SECONDS ?= 20

# Leaving a field out zeroes it, and we rely on that.
WARN	= -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes \
	  -Wmissing-prototypes -Wwrite-strings -Wcast-qual -Wvla -Wformat=2 \
	  -Wno-missing-field-initializers $(if $(WERROR),-Werror)
# What every byte goes through is fast, the rest is small.
HOT	:= base64 buf excerpt json spill stream utf8 websocket
OPT	= $(if $(filter $(HOT),$(*F)),-O2,$(if $(SAN),-O1,-Os))
# -iquote: a <header.h> is never ours.
FLAGS	= -std=c11 -D_GNU_SOURCE $(OPT) -g $(WARN) $(HARDEN) $(CODEGEN) \
	  $(SANFLAGS) -iquote . -iquote $(B) $(THIRD) -DVERSION='"$(VERSION)"' -MMD -MP

MAINS	:= $(wildcard mcp-sandbox.c mcp-sandbox-agent.c)
SRCS	:= $(filter-out $(MAINS),$(wildcard *.c))
OBJS	:= $(SRCS:%.c=$(B)/%.o)
PROGS	:= $(MAINS:%.c=$(B)/%)
TESTS	:= $(patsubst %.c,$(B)/%,$(wildcard tests/test-*.c))
FUZZERS	:= $(patsubst %.c,$(B)/%,$(wildcard tests/fuzz/fuzz-*.c))
# Third-party code is not what the fuzzers and clang's warnings are for: they
# link the one that gcc made.
THIRDLIB := build/$(LIBC)$(if $(CLANG),,$(if $(SAN),-san))/libthird.a
# Everything but main(), so that tests link what the program links.
LIBS	:= $(B)/libmcp-sandbox.a $(THIRDLIB)
BPF	:= $(if $(wildcard seccomp.def),$(B)/seccomp-bpf.h)

ifeq ($(LIBC),musl)
all: $(MAINS:%.c=%)
else
all: $(PROGS)
endif
all: $(LIBS)

need-%:
	@tools/need $(subst -, ,$*)

# --- third-party code --------------------------------------------------------

$(T)/unpacked: third-party.lock | need-base
	@mkdir -p $(T)
	@flock $(T)/lock sh -c 'cmp -s third-party.lock $@ || \
	    { tools/fetch third-party.lock $(T) && cp third-party.lock $@; }'
	@touch $@

$(B)/kernel: | need-base
	@mkdir -p $@
	@multi=$$($(CC) -print-multiarch); ln -sfn /usr/include/linux $@/linux && \
	    ln -sfn /usr/include/asm-generic $@/asm-generic && \
	    if [ -d "/usr/include/$$multi/asm" ]; \
	    then ln -sfn "/usr/include/$$multi/asm" $@/asm; \
	    else ln -sfn /usr/include/asm $@/asm; fi

NEEDS	:= $(if $(filter musl,$(LIBC)),$(B)/kernel $(MUSL)/lib/libc.a) \
	   $(if $(FUZZ),need-fuzz,$(if $(CLANG),need-clang))

# All cores, unless the caller has said how many.
$(THIRDLIB): $(T)/unpacked $(wildcard config/*) tools/third-party.mk \
    tools/toolchain.mk | $(NEEDS)
	@mkdir -p $(@D)
	@case '$(MAKEFLAGS)' in *-j*) j= ;; *) j=-j$$(nproc) ;; esac; \
	    flock $(@D)/lock $(MAKE) $$j --no-print-directory \
	    -f tools/third-party.mk LIBC=$(LIBC) CC=$(if $(CLANG),gcc,$(CC)) \
	    SAN=$(if $(CLANG),,$(SAN)) $@

# --- our code ----------------------------------------------------------------

# Libseccomp works at build time only; what is linked in is its result.
$(B)/gen-bpf: tools/gen-bpf.c seccomp.def | need-base
	@mkdir -p $(@D)
	@echo "  HOST  $@"
	@gcc -std=c11 -D_GNU_SOURCE -O1 $(WARN) -iquote . -o $@ $< -lseccomp

$(B)/seccomp-bpf.h: $(B)/gen-bpf
	@echo "  GEN   $@"
	@$(B)/gen-bpf $(ARCH) >$@.new && mv $@.new $@

$(B)/%.o: %.c VERSION Makefile tools/toolchain.mk | $(T)/unpacked $(NEEDS) $(BPF)
	@mkdir -p $(@D)
	@echo "  CC    $<"
	@$(TCC) $(FLAGS) -c -o $@ $<

$(B)/libmcp-sandbox.a: $(OBJS)
	@mkdir -p $(@D)
	@echo "  AR    $@"
	@rm -f $@ $@.new
	@ar qcsD $@.new $^
	@mv $@.new $@

$(PROGS): $(B)/%: $(B)/%.o $(LIBS)
	@echo "  LINK  $@"
	@$(TCC) $(HARDEN) $(CODEGEN) $(SANFLAGS) $(LINK) -o $@ $(START) \
	    $(filter %.o,$^) $(filter %.a,$^) $(END)

# --- agents for the pods ------------------------------------------------------

include tools/agent.mk
include tools/image.mk

# The server carries the agents that are there: those of "make agents", else
# the one of this machine. agents.o of the archive, for the tests, has none.
carry	= $(addsuffix .gz,$(or $(wildcard build/agent/mcp-sandbox-agent-$1), \
	  $(if $(filter musl-$1,$(LIBC)-$(ARCH)),build/agent/mcp-sandbox-agent-$1)))
CARRY_AMD64 := $(strip $(call carry,amd64))
CARRY_ARM64 := $(strip $(call carry,arm64))
$(B)/mcp-sandbox: $(B)/carried.o
$(B)/carried.o: agents.c $(CARRY_AMD64) $(CARRY_ARM64) Makefile
	@echo "  CC    $< $(CARRY_AMD64) $(CARRY_ARM64)"
	@$(TCC) $(FLAGS) $(CARRY_AMD64:%=-DAGENT_AMD64='"%"') \
	    $(CARRY_ARM64:%=-DAGENT_ARM64='"%"') -c -o $@ $<

$(B)/pack-relr: tools/pack-relr.c
	@mkdir -p $(@D)
	@echo "  HOST  $@"
	@gcc -std=c11 -O1 $(WARN) -o $@ $<

# Without symbols, and as small as it gets.
$(B)/%.stripped: $(B)/% $(B)/pack-relr
	@$(STRIP) -R .comment -o $@.new $<
	@$(B)/pack-relr $@.new
	@mv $@.new $@

ifeq ($(LIBC),musl)
mcp-sandbox: $(B)/mcp-sandbox.stripped
mcp-sandbox-agent: $(if $(filter $(ARCH),$(AGENTS)), \
    build/agent/mcp-sandbox-agent-$(ARCH),$(B)/mcp-sandbox-agent.stripped)
$(MAINS:%.c=%):
	@cp $< $@.new
	@mv $@.new $@
endif

# --- tests -------------------------------------------------------------------

# A sanitizer needs what the confinement denies: these run without one.
CONFINED := $(filter $(B)/tests/test-sandbox%,$(TESTS))
UNIT	:= $(filter-out $(CONFINED),$(TESTS))

$(TESTS): $(B)/%: $(B)/%.o $(LIBS)
	@echo "  LINK  $@"
	@$(TCC) $(SANFLAGS) $(LINK) -o $@ $^ $$(pkg-config --libs check)

$(TESTS:%=%.o): | need-test
$(B)/tests/test-cargo: | build/agent/mcp-sandbox-agent-$(HOST).gz

ifeq ($(LIBC),musl)
# The test library is made for glibc, and so are the checkers.
check-unit check-valgrind:
	@$(MAKE) --no-print-directory LIBC=glibc $@
else
ifdef SAN
CONFINED := $(CONFINED:$(B)/%=build/glibc/%)
$(CONFINED): build/glibc/%: FORCE
	@$(MAKE) --no-print-directory LIBC=glibc SAN= CC=gcc $@
endif
check-unit: $(UNIT) $(CONFINED)
	@tools/run-tests $^

# Slow enough there to be left out.
VALGRIND_SKIP ?=
check-valgrind: $(filter-out $(VALGRIND_SKIP:%=$(B)/tests/%),$(UNIT)) | need-valgrind
	@CK_FORK=no tools/run-tests --valgrind $^
endif

ifdef FUZZ
fuzz: $(FUZZERS)
$(FUZZERS): $(B)/%: $(B)/%.o $(LIBS)
	@echo "  LINK  $@"
	@$(TCC) -fsanitize=fuzzer,address,undefined $(LINK) -o $@ $^

check-fuzz: $(FUZZERS)
	@tools/run-fuzz $(FUZZ_SECONDS) $^
else
fuzz check-fuzz:
	@$(MAKE) --no-print-directory SAN=fuzzer $@
endif

reproducible: | $(T)/unpacked
	@tools/reproducible "$(MAKE)"

# --- the rest ----------------------------------------------------------------

# The licences of what is linked in ask to go where the program goes.
NOTICES	= $(T)/curl/COPYING $(T)/mbedtls/LICENSE $(T)/nghttp2/COPYING \
	  $(T)/libyaml/License $(T)/zlib/LICENSE $(T)/jsmn/LICENSE \
	  $(T)/openssl/LICENSE.txt \
	  $(if $(filter musl,$(LIBC)),$(AGENT_T)/musl/COPYRIGHT)

install: all
	install -d $(DESTDIR)$(BINDIR) $(DESTDIR)$(DOCDIR)
	install -m 755 $(if $(filter musl,$(LIBC)),$(MAINS:%.c=%),$(PROGS)) \
	    $(DESTDIR)$(BINDIR)/
	install -m 644 LICENSE $(DESTDIR)$(DOCDIR)/
	tail -n +1 $(NOTICES) >$(DESTDIR)$(DOCDIR)/NOTICES
	tools/sbom $(VERSION) third-party.lock tools/agent.lock \
	    >$(DESTDIR)$(DOCDIR)/mcp-sandbox.spdx.json
	@for f in man/*.[158]; do \
		[ -f "$$f" ] || continue; d=$(DESTDIR)$(MANDIR)/man$${f##*.}; \
		echo "install -m 644 $$f $$d/"; \
		install -d $$d && install -m 644 $$f $$d/ || exit 1; \
	done
	@for f in systemd/*.service systemd/*.socket; do \
		[ -f "$$f" ] || continue; d=$(DESTDIR)$(UNITDIR); \
		echo "install $$f $$d/"; install -d $$d && \
		sed 's|/usr/local/bin/|$(BINDIR)/|' $$f >$$d/$${f##*/} && \
		chmod 644 $$d/$${f##*/} || exit 1; \
	done
	install -d $(DESTDIR)$(PREFIX)/lib/sysusers.d
	install -m 644 systemd/mcp-sandbox.sysusers \
	    $(DESTDIR)$(PREFIX)/lib/sysusers.d/mcp-sandbox.conf

clean:
	rm -rf build mcp-sandbox mcp-sandbox-agent

FORCE:
.SECONDARY:
.PHONY: all check-unit check-valgrind check-fuzz fuzz reproducible install \
    clean FORCE

-include $(wildcard $(B)/*.d $(B)/tests/*.d $(B)/tests/fuzz/*.d)
# Targets that need Python or a cluster live beside their tests.
-include $(wildcard tests/*.mk)
