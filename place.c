/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "call.h"
#include "config.h"
#include "env.h"
#include "lease.h"
#include "place.h"
#include "session.h"
#include "tools.h"

struct place
place_of(const struct call *c)
{
	struct place p = { NULL, NULL };
	const struct env *env = c->env;
	const char *family = c->tool->family;

	if (env == NULL || family == NULL)
		return p;
	if (strcmp(family, "jobs") == 0) {
		p.namespace = env->config->job.namespace;
	} else if (strcmp(family, "bash") == 0 && env->sessions != NULL) {
		p.namespace = sessions_namespace(env->sessions);
		p.object = lease_session(env);
	}
	return p;
}
