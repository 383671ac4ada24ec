/* SPDX-License-Identifier: Apache-2.0 */
#include "agent.h"
#include "env.h"
#include "error.h"
#include "lease.h"
#include "session.h"
#include "token.h"

/* Over HTTP the caller's; NULL when it has told none. */
const char *
lease_session(const struct env *env)
{
	if (!env->http)
		return sessions_own(env->sessions);
	return env->session_sent ? env->session : NULL;
}

int
lease_check(const struct env *env, struct error *err)
{
	const char *id = lease_session(env);

	if (id == NULL)
		return error_set(err, ERR_INPUT, "missing X-Session-ID header");
	if (token_session_ok(id))
		return 0;
	error_set(err, ERR_INPUT, "invalid session ID '%.63s': 1 to 63 of a-z, "
	    "0-9 and -, no - at either end (%s)", id, env->http ?
	    "X-Session-ID" : "--session-id");
	return error_wrap(err, "sandbox exec failed");
}

int
lease_find(struct lease *l, const struct env *env, bool doubt, event_fn *fn,
    void *arg)
{
	l->find = session_find(env->sessions, lease_session(env), doubt, fn,
	    arg);
	return l->find == NULL ? -1 : 0;
}

static void
take(struct lease *l, struct session *s)
{
	l->session = s;
	session_use(s);
	l->agent = agent_hold(session_agent(s));
}

bool
lease_known(struct lease *l, const struct env *env)
{
	struct session *s = session_known(env->sessions, lease_session(env));

	if (s != NULL)
		take(l, s);
	return s != NULL;
}

void
lease_take(struct lease *l)
{
	struct session *s = session_found(l->find);

	l->find = NULL;
	take(l, s);
}

void
lease_drop(struct lease *l)
{
	session_find_close(l->find);
	session_unuse(l->session);
	agent_close(l->agent);
	*l = (struct lease){ NULL, NULL, NULL };
}

bool
lease_stop(struct lease *l)
{
	if (l->find == NULL)
		return false;
	if (session_find_stop(l->find))
		return true;
	l->find = NULL;
	return false;
}
