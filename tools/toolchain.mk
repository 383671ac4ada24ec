# SPDX-License-Identifier: Apache-2.0
#
# Which compiler, which libc, where the objects go.  Read by the Makefile and
# by third-party.mk.
#
#	LIBC=musl|glibc		musl is the product, glibc is for the checkers
#	SAN=address,undefined	sanitizers; SAN=fuzzer for the fuzzers
#	CC=gcc|clang		clang and sanitizers go with glibc only

SAN	?=
comma	:= ,

ifeq ($(origin CC),default)
CC	:= gcc
endif

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
LINK	= -Wl,-z,relro,-z,now,-z,noexecstack,--gc-sections,--build-id=none \
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
TCC	:= REALGCC=$(CC) musl-gcc
# The kernel's headers, which musl does not bring.
CODEGEN	+= -isystem $(B)/kernel -fno-asynchronous-unwind-tables
# Debian's musl-gcc turns -static-pie into a dynamic program; this does not.
CRT	?= /usr/lib/$(shell uname -m)-linux-musl
LINK	+= -static -nostartfiles \
	   -Wl,-pie,--no-dynamic-linker,-z,text
START	:= $(CRT)/rcrt1.o $(CRT)/crti.o
END	:= $(CRT)/crtn.o
else
TCC	:= $(CC)
LINK	+= -pie
endif

T	:= build/third-party
# As if they were the system's: their warnings are not ours.
THIRD	= -isystem $(T)/curl/include -isystem $(T)/mbedtls/include \
	  -isystem $(T)/mbedtls/3rdparty/everest/include \
	  -isystem $(T)/nghttp2/lib/includes -isystem $(T)/libyaml/include \
	  -isystem $(T)/zlib -isystem $(T)/jsmn -isystem config \
	  -DMBEDTLS_CONFIG_FILE='<mbedtls_config.h>' \
	  -DCURL_STATICLIB -DNGHTTP2_STATICLIB -DYAML_DECLARE_STATIC
