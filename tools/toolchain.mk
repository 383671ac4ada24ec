# SPDX-License-Identifier: Apache-2.0
#
# Which compiler, which libc, where the objects go.  Read by the Makefile and
# by third-party.mk.
#
#	LIBC=musl|glibc		musl is the product, glibc is for the checkers
#	SAN=address,undefined	sanitizers; SAN=fuzzer for the fuzzers
#	CC=gcc|clang		clang and sanitizers go with glibc only
#	ARCH=amd64|arm64	this machine's, unless tools/image.mk says

SAN	?=
comma	:= ,

ifeq ($(origin CC),default)
CC	:= gcc
endif

STRIP	?= strip
HOST	:= $(patsubst x86_64,amd64,$(patsubst aarch64,arm64,$(shell uname -m)))
ARCH	:= $(HOST)

FUZZ	:= $(findstring fuzzer,$(SAN))
ifdef FUZZ
override CC := clang
SANFLAGS := -fsanitize=fuzzer-no-link,address,undefined
else ifdef SAN
SANFLAGS := -fsanitize=$(SAN)
endif
CLANG	:= $(findstring clang,$(CC))
LIBC	?= $(if $(CLANG)$(SAN),glibc,musl)

B	:= build/$(LIBC)$(if $(FUZZ),-fuzz,$(if $(CLANG),-clang)$(if $(SAN),-san))

CODEGEN	= -fPIE -ffunction-sections -fdata-sections \
	  -ffile-prefix-map=$(CURDIR)=. $(CFLAGS)
LINK	= -Wl,-z,now,-z,noexecstack,--gc-sections,--build-id=none \
	  $(LDFLAGS)
HARDEN	= -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -fstack-protector-strong \
	  -fstack-clash-protection
ifdef SAN
HARDEN	= -fno-omit-frame-pointer -fno-sanitize-recover=all
endif

ifeq ($(LIBC),musl)
ifneq ($(CLANG)$(SAN),)
$(error clang and sanitizers need LIBC=glibc)
endif
# The one of tools/agent.mk for any machine: the distribution's does not apply
# relative relocations in their packed form, a tenth of the size and the time.
MUSL	:= build/agent/$(ARCH)/musl
TCC	:= $(CC) -nostdinc -isystem $(MUSL)/include \
	   -isystem $(shell $(CC) -print-file-name=include)
# The kernel's headers, which musl does not bring.  Arm's compiler has tables
# for unwinding unless told twice.
CODEGEN	+= -isystem $(B)/kernel -fno-asynchronous-unwind-tables \
	   -fno-unwind-tables
# -static-pie would look for the system's files.  No RELRO: musl does not apply
# it to a static program, and it pads one for pages of 64 KB.
LINK	+= -static -nostdlib -nostartfiles \
	   -Wl,-pie,--no-dynamic-linker,-z,text,-z,norelro \
	   $(if $(filter amd64,$(ARCH)),-Wl$(comma)-z$(comma)pack-relative-relocs)
START	:= $(MUSL)/lib/rcrt1.o $(MUSL)/lib/crti.o
END	:= $(MUSL)/lib/libc.a $(shell $(CC) -print-libgcc-file-name) \
	   $(MUSL)/lib/crtn.o
else
TCC	:= $(CC)
LINK	+= -pie -Wl,-z,relro
endif

T	:= build/third-party
# As if they were the system's: their warnings are not ours.
THIRD	= -isystem $(T)/curl/include -isystem $(T)/mbedtls/include \
	  -isystem $(T)/mbedtls/3rdparty/everest/include \
	  -isystem $(T)/nghttp2/lib/includes -isystem $(T)/libyaml/include \
	  -isystem $(T)/zlib -isystem $(T)/jsmn -isystem config \
	  -DMBEDTLS_CONFIG_FILE='<mbedtls_config.h>' \
	  -DCURL_STATICLIB -DNGHTTP2_STATICLIB -DYAML_DECLARE_STATIC
