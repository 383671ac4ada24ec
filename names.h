/* SPDX-License-Identifier: Apache-2.0 */
/*
 * names - the forms Kubernetes gives to names, label keys and values
 * (RFC 1123; apimachinery validation), checked before anything is sent.
 *
 * Each of the int ones is 0, or -1 with ERR_INPUT and a text that begins with
 * what.
 */
#ifndef NAMES_H
#define NAMES_H

#include <stdbool.h>

struct error;

int name_label(const char *what, const char *s, struct error *err);
int name_subdomain(const char *what, const char *s, struct error *err);
int name_label_key(const char *what, const char *s, struct error *err);
int name_label_value(const char *what, const char *s, struct error *err);
int name_variable(const char *what, const char *s, struct error *err);

/* Is s in the list, which NULL ends? */
bool name_among(const char *s, const char *const *list);

#endif
