/* SPDX-License-Identifier: Apache-2.0 */
/*
 * names - the forms Kubernetes gives to names, label keys and values
 * (RFC 1123; apimachinery validation), checked before anything is sent.
 *
 * Each is 0, or -1 with ERR_INPUT and a text that begins with what.
 */
#ifndef NAMES_H
#define NAMES_H

struct error;

int name_label(const char *what, const char *s, struct error *err);
int name_subdomain(const char *what, const char *s, struct error *err);
int name_label_key(const char *what, const char *s, struct error *err);
int name_label_value(const char *what, const char *s, struct error *err);
int name_variable(const char *what, const char *s, struct error *err);

#endif
