#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# make-pki.sh DIR - the certificates of test-web, good and bad ones.
set -eu
cd "$1"
exec 2>openssl.log
yesterday=$(date -u -d yesterday +%Y%m%d%H%M%SZ)
tomorrow=$(date -u -d tomorrow +%Y%m%d%H%M%SZ)

ec() {
	openssl ecparam -name prime256v1 -genkey -noout -out "$1.key"
}

rsa() {
	openssl genrsa -out "$1.key" 2048
}

authority() {
	ec "$1"
	openssl req -x509 -new -key "$1.key" -out "$1.crt" -days 2 \
	    -subj "/CN=$1" -addext basicConstraints=critical,CA:TRUE
}

# sign AUTHORITY NAME EXTENSION [FROM TO]
sign() {
	mkdir -p db
	: >db/index
	echo unique_subject=no >db/index.attr
	cat >ca.conf <<-END
	[ca]
	default_ca=d
	[d]
	database=db/index
	rand_serial=yes
	new_certs_dir=db
	default_md=sha256
	policy=p
	x509_extensions=e
	[p]
	commonName=supplied
	[e]
	$3
	END
	openssl req -new -key "$2.key" -subj "/CN=$2" -out "$2.csr"
	openssl ca -batch -notext -config ca.conf -cert "$1.crt" \
	    -keyfile "$1.key" -in "$2.csr" -out "$2.crt" \
	    -startdate "${4:-$yesterday}" -enddate "${5:-$tomorrow}"
}

authority ca
authority other
here=subjectAltName=IP:127.0.0.1,DNS:api.test
ec good; sign ca good $here
rsa good-rsa; sign ca good-rsa $here
ec elsewhere; sign ca elsewhere subjectAltName=IP:127.0.0.9,DNS:other.test
ec old; sign ca old $here 20200101000000Z 20200201000000Z
ec young; sign ca young $here 20900101000000Z 20900201000000Z
ec wild; sign ca wild "subjectAltName=DNS:*.api.test,DNS:*"
me=extendedKeyUsage=clientAuth
ec me; sign ca me $me
rsa me-rsa; sign ca me-rsa $me
ec stranger; sign other stranger $me
