# SPDX-License-Identifier: Apache-2.0
#
# $(B)/libthird.a: curl, mbedTLS, nghttp2, libyaml, zlib and some of OpenSSL's
# assembler, each with only what the program needs, and what config/ adds.  Its
# own make, because the list of sources is not known before they are unpacked.

include tools/toolchain.mk

CURL	:= $(wildcard $(T)/curl/lib/*.c $(T)/curl/lib/*/*.c)
MBED	:= $(wildcard $(T)/mbedtls/library/*.c) \
	   $(T)/mbedtls/3rdparty/everest/library/everest.c \
	   $(T)/mbedtls/3rdparty/everest/library/x25519.c \
	   $(T)/mbedtls/3rdparty/everest/library/Hacl_Curve25519_joined.c
NGHTTP2	:= $(wildcard $(T)/nghttp2/lib/*.c)
YAML	:= $(addprefix $(T)/libyaml/src/,api.c reader.c scanner.c parser.c loader.c)
ZLIB	:= $(addprefix $(T)/zlib/,adler32.c crc32.c inffast.c \
	   inflate.c inftrees.c zutil.c)
OURS	:= config/entropy.c config/bulk-sha256.c config/bulk-gcm.c
# The three of OpenSSL's that these two call there.
ASM	:= $(if $(filter amd64,$(ARCH)),$(addprefix \
	   $(T)/openssl/,sha256-x86_64.s ghash-x86_64.s aesni-gcm-x86_64.s))
# musl is slow there on x86-64 only.
MEM	:= $(if $(filter musl,$(LIBC)),$(filter amd64,$(ARCH)))
ifdef MEM
OURS	+= config/mem.c
endif

obj	= $(patsubst config/%,$(B)/config/%.o,$(patsubst build/%,$(B)/%.o, \
	  $(basename $1)))
ALL	:= $(call obj,$(CURL) $(MBED) $(NGHTTP2) $(YAML) $(ZLIB) $(OURS) $(ASM))

# -w: their warnings are upstream's, but these three are bugs on a 64-bit libc
# that declares less than glibc.
FLAGS	= -std=gnu11 -D_GNU_SOURCE -w -Werror=implicit-function-declaration \
	  -Werror=int-conversion -Werror=incompatible-pointer-types \
	  $(HARDEN) $(CODEGEN) $(if $(SAN),-g) \
	  $(subst $(comma)undefined,,$(SANFLAGS))

$(B)/libthird.a: $(ALL)
	@echo "  AR    $@"
	@rm -f $@ $@.new
	@ar qcsD $@.new $(ALL)
	@mv $@.new $@

$(ALL): config/curl_config.h config/mbedtls_config.h config/bulk.h \
    tools/toolchain.mk \
    tools/third-party.mk $(T)/unpacked

# No tracing, but the names of errors, which go by the same switch.
$(call obj,$(CURL)): FLAGS += -Os -DHAVE_CONFIG_H -DBUILDING_LIBCURL \
    -I$(T)/curl/lib \
    $(if $(filter strerror.o,$(@F)),,-DCURL_DISABLE_VERBOSE_STRINGS)
# What a handshake and its bulk spend their time in; the rest may be small.
FAST	:= aes% bignum% ecp% ecdsa% rsa% sha256% sha512% gcm% ghash% chacha% \
	   poly1305% constant_time% ctr_drbg% Hacl% x25519% everest%
$(call obj,$(MBED)): FLAGS += $(if $(filter $(FAST),$(@F)),-O2,-Os) \
    -I$(T)/mbedtls/library \
    $(addprefix -isystem $(T)/mbedtls/3rdparty/everest/include/everest,/ /kremlib)
$(call obj,$(NGHTTP2)): FLAGS += -Os -DHAVE_ARPA_INET_H -DHAVE_NETINET_IN_H \
    -DHAVE_CLOCK_GETTIME -DHAVE_DECL_CLOCK_MONOTONIC=1
$(call obj,$(YAML)): FLAGS += -Os -DYAML_VERSION_MAJOR=0 -DYAML_VERSION_MINOR=2 \
    -DYAML_VERSION_PATCH=5 -DYAML_VERSION_STRING='"0.2.5"'
# One table for a checksum, not the nine of 16 KB.
$(call obj,$(ZLIB)): FLAGS += -Os -DZ_TESTW=0
$(call obj,$(OURS)): FLAGS += -O2 -Wall -Wextra $(SANFLAGS)
# The functions that the compiler would turn these loops into are these.
$(B)/config/mem.o: FLAGS += -fno-builtin -fno-tree-loop-distribute-patterns \
    -fno-stack-protector

$(B)/third-party/%.o: $(T)/%.c
	@mkdir -p $(@D)
	@echo "  CC    $<"
	@$(TCC) $(FLAGS) $(THIRD) -c -o $@ $<

$(B)/third-party/%.o: $(T)/%.s
	@mkdir -p $(@D)
	@echo "  AS    $<"
	@$(TCC) -Wa,--noexecstack -c -o $@ $<

$(B)/config/%.o: config/%.c
	@mkdir -p $(@D)
	@echo "  CC    $<"
	@$(TCC) $(FLAGS) $(THIRD) -c -o $@ $<
