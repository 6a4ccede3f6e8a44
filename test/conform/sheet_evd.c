/* SPDX-License-Identifier: BSD-2-Clause */
/* The sheet: event dispatchers. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include "sheet.h"

static DAT_EVENT event;
static DAT_COUNT nmore;

static DAT_EVD_HANDLE software_evd(unsigned events)
{
	DAT_EVD_HANDLE evd = new_evd(8, DAT_EVD_SOFTWARE_FLAG);

	post_software_events(evd, events);
	return evd;
}

static DAT_EVD_PARAM evd_param(DAT_EVD_HANDLE evd)
{
	DAT_EVD_PARAM param;

	ck_dat(dat_evd_query(evd, DAT_EVD_FIELD_ALL, &param));
	return param;
}

/* ---- dat_evd_create ---- */

static DAT_RETURN create(DAT_COUNT qlen, DAT_CNO_HANDLE cno, DAT_EVD_FLAGS flags)
{
	DAT_EVD_HANDLE evd = unwritten;
	DAT_RETURN ret = dat_evd_create(here->ia, qlen, cno, flags, &evd);

	if (ret == DAT_SUCCESS)
		ck_assert_int_ge(evd_param(keep(evd)).evd_qlen, qlen);
	else
		ck_assert_ptr_eq(evd, unwritten);
	return ret;
}

HANDLE_ROWS(dat_evd_create, "the IA", IA, BAD_HANDLE(IA),
	    dat_evd_create(h, 8, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &unwritten));
HANDLE_OR_NULL_ROWS(dat_evd_create, "the CNO", CNO, BAD_HANDLE(CNO),
		    create(8, h, DAT_EVD_DTO_FLAG));
ROW(dat_evd_create, "the CNO is another instance's", BAD_HANDLE(CNO),
    create(8, foreign_handle(HANDLE_CNO), DAT_EVD_DTO_FLAG));
ROW(dat_evd_create, "the length is 0", BAD_ARG(2), create(0, NULL, DAT_EVD_DTO_FLAG));
ROW(dat_evd_create, "the length is negative", BAD_ARG(2), create(-1, NULL, DAT_EVD_DTO_FLAG));
ROW(dat_evd_create, "no flag is set", BAD_ARG(4), create(8, NULL, (DAT_EVD_FLAGS)0));
ROW(dat_evd_create, "an unknown flag alone is set", BAD_ARG(4),
    create(8, NULL, (DAT_EVD_FLAGS)0x400));
ROW(dat_evd_create, "an unknown flag is set, too, which is ignored", DAT_SUCCESS,
    create(8, NULL, (DAT_EVD_FLAGS)0x420));
ROW(dat_evd_create, "the output is null", BAD_ARG(5),
    dat_evd_create(here->ia, 8, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, NULL));
ROW(dat_evd_create, "the length is above max_evd_qlen", NO_RESOURCE(TEVD),
    create(here->attr.max_evd_qlen + 1, NULL, DAT_EVD_DTO_FLAG));
ROW(dat_evd_create, "the length is 1", DAT_SUCCESS, create(1, NULL, DAT_EVD_DTO_FLAG));
ROW(dat_evd_create, "it has a CNO", DAT_SUCCESS, create(8, new_cno(), DAT_EVD_DTO_FLAG));
ROW(dat_evd_create, "for software events", DAT_SUCCESS, create(8, NULL, DAT_EVD_SOFTWARE_FLAG));
ROW(dat_evd_create, "for connection requests", DAT_SUCCESS, create(8, NULL, DAT_EVD_CR_FLAG));
ROW(dat_evd_create, "for connections", DAT_SUCCESS, create(8, NULL, DAT_EVD_CONNECTION_FLAG));
ROW(dat_evd_create, "for binds", DAT_SUCCESS, create(8, NULL, DAT_EVD_RMR_BIND_FLAG));
ROW(dat_evd_create, "for asynchronous errors", DAT_SUCCESS, create(8, NULL, DAT_EVD_ASYNC_FLAG));
ROW(dat_evd_create, "for all events but software events", DAT_SUCCESS,
    create(8, NULL, DAT_EVD_DEFAULT_FLAG));
ROW(dat_evd_create, "for all events", DAT_SUCCESS,
    create(8, NULL, DAT_EVD_DEFAULT_FLAG | DAT_EVD_SOFTWARE_FLAG));

/* ---- dat_evd_free ---- */

HANDLE_ROWS(dat_evd_free, "the EVD", EVD, BAD_HANDLE1, dat_evd_free(h));
ROW(dat_evd_free, "nothing uses it", DAT_SUCCESS, dat_evd_free(new_evd(8, DAT_EVD_DTO_FLAG)));
ROW(dat_evd_free, "events are queued", DAT_SUCCESS, dat_evd_free(software_evd(3)));
ROW(dat_evd_free, "an endpoint uses it for receives", BAD_STATE(EVD_IN_USE),
    dat_evd_free(here->recv_evd));
ROW(dat_evd_free, "an endpoint uses it for requests", BAD_STATE(EVD_IN_USE),
    dat_evd_free(here->request_evd));
ROW(dat_evd_free, "an endpoint uses it for connections", BAD_STATE(EVD_IN_USE),
    dat_evd_free(here->connect_evd));
ROW(dat_evd_free, "it is the asynchronous EVD of its IA", BAD_STATE(EVD_IN_USE),
    dat_evd_free(here->async_evd));

ROW_DO(dat_evd_free, "a service point uses it", BAD_STATE(EVD_IN_USE))
{
	DAT_CONN_QUAL qual;

	new_psp(&qual);
	return dat_evd_free(there->cr_evd);
}

ROW_DO(dat_evd_free, "another instance uses it for asynchronous errors", BAD_STATE(EVD_IN_USE))
{
	DAT_EVD_HANDLE evd = new_evd(8, DAT_EVD_ASYNC_FLAG), given = evd;
	DAT_IA_HANDLE ia;

	ck_dat(dat_ia_openv(here->name, 0, &given, &ia, DAT_VERSION_MAJOR, DAT_VERSION_MINOR,
			    here->provider.is_thread_safe));
	keep(ia);
	return dat_evd_free(evd);
}

ROW_DO(dat_evd_free, "a thread waits on it", DAT_SUCCESS)
{
	struct waiter waiter = { .evd = new_evd(8, DAT_EVD_SOFTWARE_FLAG) };
	DAT_RETURN ret;

	waiter_start(&waiter);
	ret = dat_evd_free(waiter.evd);
	ck_dat_is(waiter_join(&waiter), PLAIN(ABORT));
	return ret;
}

/* ---- dat_evd_query ---- */

static DAT_EVD_PARAM param;

HANDLE_ROWS(dat_evd_query, "the EVD", EVD, BAD_HANDLE1,
	    dat_evd_query(h, DAT_EVD_FIELD_ALL, &param));
ROW(dat_evd_query, "the mask has an unknown bit, which is ignored", DAT_SUCCESS,
    dat_evd_query(here->recv_evd, (DAT_EVD_PARAM_MASK)0x20, &param));
ROW(dat_evd_query, "the output is null", BAD_ARG(3),
    dat_evd_query(here->recv_evd, DAT_EVD_FIELD_ALL, NULL));
ROW(dat_evd_query, "the mask is 0", DAT_SUCCESS,
    dat_evd_query(here->recv_evd, (DAT_EVD_PARAM_MASK)0, &param));

ROW_DO(dat_evd_query, "all fields of a new EVD", DAT_SUCCESS)
{
	DAT_CNO_HANDLE cno = new_cno();
	DAT_EVD_HANDLE evd;
	DAT_RETURN ret;

	ck_dat(dat_evd_create(here->ia, 8, cno, DAT_EVD_SOFTWARE_FLAG, &evd));
	keep(evd);
	ret = dat_evd_query(evd, DAT_EVD_FIELD_ALL, &param);
	ck_assert_ptr_eq(param.ia_handle, here->ia);
	ck_assert_int_ge(param.evd_qlen, 8);
	ck_assert_int_eq(param.evd_state, DAT_EVD_STATE_ENABLED | DAT_EVD_STATE_WAITABLE |
						  DAT_EVD_STATE_CONFIG_THRESHOLD);
	ck_assert_ptr_eq(param.cno_handle, cno);
	ck_assert_int_eq(param.evd_flags, DAT_EVD_SOFTWARE_FLAG);
	return ret;
}

/* Of the receive EVD of an endpoint with these flags. */
static DAT_EVD_STATE configuration(DAT_COMPLETION_FLAGS recv_flags)
{
	DAT_EP_ATTR attr = ep_attr_for(4, 4);

	attr.recv_completion_flags = recv_flags;
	return evd_param(new_pair(&attr)->client.recv_evd).evd_state &
	       DAT_EVD_STATE_CONFIG_THRESHOLD;
}

ROW_DO(dat_evd_query, "its endpoint has UNSIGNALLED receives", DAT_SUCCESS)
{
	ck_assert_int_eq(configuration(DAT_COMPLETION_UNSIGNALLED_FLAG),
			 DAT_EVD_STATE_CONFIG_NOTIFY);
	return DAT_SUCCESS;
}

ROW_DO(dat_evd_query, "its endpoint has SOLICITED_WAIT receives", DAT_SUCCESS)
{
	ck_assert_int_eq(configuration(DAT_COMPLETION_SOLICITED_WAIT_FLAG),
			 DAT_EVD_STATE_CONFIG_SOLICITED);
	return DAT_SUCCESS;
}

ROW_DO(dat_evd_query, "its endpoint has EVD_THRESHOLD receives", DAT_SUCCESS)
{
	ck_assert_int_eq(configuration(DAT_COMPLETION_EVD_THRESHOLD_FLAG),
			 DAT_EVD_STATE_CONFIG_THRESHOLD);
	return DAT_SUCCESS;
}

/* ---- dat_evd_modify_cno ---- */

HANDLE_ROWS(dat_evd_modify_cno, "the EVD", EVD, BAD_HANDLE1,
	    dat_evd_modify_cno(h, DAT_HANDLE_NULL));
HANDLE_OR_NULL_ROWS(dat_evd_modify_cno, "the CNO", CNO, BAD_HANDLE(CNO),
		    dat_evd_modify_cno(here->recv_evd, h));
ROW(dat_evd_modify_cno, "the CNO is another instance's", BAD_HANDLE(CNO),
    dat_evd_modify_cno(here->recv_evd, foreign_handle(HANDLE_CNO)));
ROW(dat_evd_modify_cno, "there is none, and none is given", DAT_SUCCESS,
    dat_evd_modify_cno(here->recv_evd, DAT_HANDLE_NULL));

ROW_DO(dat_evd_modify_cno, "a CNO is given", DAT_SUCCESS)
{
	DAT_CNO_HANDLE cno = new_cno();
	DAT_EVD_HANDLE evd = software_evd(0);
	DAT_RETURN ret = dat_evd_modify_cno(evd, cno);

	ck_assert_ptr_eq(evd_param(evd).cno_handle, cno);
	return ret;
}

ROW_DO(dat_evd_modify_cno, "null is given, and the CNO is free again", DAT_SUCCESS)
{
	DAT_CNO_HANDLE cno = new_cno();
	DAT_EVD_HANDLE evd = software_evd(0);
	DAT_RETURN ret;

	ck_dat(dat_evd_modify_cno(evd, cno));
	ret = dat_evd_modify_cno(evd, DAT_HANDLE_NULL);
	ck_dat(dat_cno_free(cno));
	return ret;
}

ROW_DO(dat_evd_modify_cno, "events are queued, which trigger the new CNO", DAT_SUCCESS)
{
	DAT_CNO_HANDLE cno = new_cno();
	DAT_EVD_HANDLE evd = software_evd(1), fired = DAT_HANDLE_NULL;
	DAT_RETURN ret = dat_evd_modify_cno(evd, cno);

	ck_dat(dat_cno_wait(cno, 0, &fired));
	ck_assert_ptr_eq(fired, evd);
	return ret;
}

/* ---- dat_evd_enable, dat_evd_disable ---- */

HANDLE_ROWS(dat_evd_enable, "the EVD", EVD, BAD_HANDLE1, dat_evd_enable(h));
HANDLE_ROWS(dat_evd_disable, "the EVD", EVD, BAD_HANDLE1, dat_evd_disable(h));
ROW(dat_evd_enable, "it is enabled", DAT_SUCCESS, dat_evd_enable(here->recv_evd));

static DAT_EVD_HANDLE disabled_evd(DAT_CNO_HANDLE cno)
{
	DAT_EVD_HANDLE evd = software_evd(0);

	ck_dat(dat_evd_modify_cno(evd, cno));
	ck_dat(dat_evd_disable(evd));
	return evd;
}

ROW_DO(dat_evd_enable, "it was disabled", DAT_SUCCESS)
{
	DAT_EVD_HANDLE evd = disabled_evd(DAT_HANDLE_NULL);
	DAT_RETURN ret = dat_evd_enable(evd);

	ck_assert_int_ne(evd_param(evd).evd_state & DAT_EVD_STATE_ENABLED, 0);
	return ret;
}

ROW_DO(dat_evd_enable, "events came while it was disabled, which trigger the CNO", DAT_SUCCESS)
{
	DAT_CNO_HANDLE cno = new_cno();
	DAT_EVD_HANDLE evd = disabled_evd(cno), fired = DAT_HANDLE_NULL;
	DAT_RETURN ret;

	post_software_events(evd, 2);
	ck_dat_is(dat_cno_wait(cno, 0, &fired), DAT_QUEUE_EMPTY);
	ret = dat_evd_enable(evd);
	ck_dat(dat_cno_wait(cno, 0, &fired));
	ck_dat_is(dat_cno_wait(cno, 0, &fired), DAT_QUEUE_EMPTY);
	return ret;
}

ROW_DO(dat_evd_disable, "it is enabled", DAT_SUCCESS)
{
	DAT_EVD_HANDLE evd = software_evd(0);
	DAT_RETURN ret = dat_evd_disable(evd);

	ck_assert_int_ne(evd_param(evd).evd_state & DAT_EVD_STATE_DISABLED, 0);
	return ret;
}

ROW(dat_evd_disable, "it is disabled", DAT_SUCCESS, dat_evd_disable(disabled_evd(NULL)));

/* ---- dat_evd_set_unwaitable, dat_evd_clear_unwaitable ---- */

static DAT_EVD_HANDLE unwaitable_evd(unsigned events)
{
	DAT_EVD_HANDLE evd = software_evd(events);

	ck_dat(dat_evd_set_unwaitable(evd));
	return evd;
}

HANDLE_ROWS(dat_evd_set_unwaitable, "the EVD", EVD, BAD_HANDLE1, dat_evd_set_unwaitable(h));
HANDLE_ROWS(dat_evd_clear_unwaitable, "the EVD", EVD, BAD_HANDLE1, dat_evd_clear_unwaitable(h));
ROW(dat_evd_set_unwaitable, "it is unwaitable", DAT_SUCCESS,
    dat_evd_set_unwaitable(unwaitable_evd(0)));
ROW(dat_evd_clear_unwaitable, "it is waitable", DAT_SUCCESS,
    dat_evd_clear_unwaitable(here->recv_evd));

ROW_DO(dat_evd_set_unwaitable, "it is waitable", DAT_SUCCESS)
{
	DAT_EVD_HANDLE evd = software_evd(0);
	DAT_RETURN ret = dat_evd_set_unwaitable(evd);

	ck_assert_int_ne(evd_param(evd).evd_state & DAT_EVD_STATE_UNWAITABLE, 0);
	return ret;
}

ROW_DO(dat_evd_set_unwaitable, "a thread waits on it", DAT_SUCCESS)
{
	struct waiter waiter = { .evd = software_evd(0) };
	DAT_RETURN ret;

	waiter_start(&waiter);
	ret = dat_evd_set_unwaitable(waiter.evd);
	ck_dat_is(waiter_join(&waiter), BAD_STATE(EVD_UNWAITABLE));
	return ret;
}

ROW_DO(dat_evd_clear_unwaitable, "it is unwaitable, and can be waited on again", DAT_SUCCESS)
{
	DAT_EVD_HANDLE evd = unwaitable_evd(1);
	DAT_RETURN ret = dat_evd_clear_unwaitable(evd);

	ck_dat(dat_evd_wait(evd, 0, 1, &event, &nmore));
	return ret;
}

/* ---- dat_evd_wait ---- */

#define EMPTY (here->recv_evd)

HANDLE_ROWS(dat_evd_wait, "the EVD", EVD, BAD_HANDLE1, dat_evd_wait(h, 0, 1, &event, &nmore));
ROW(dat_evd_wait, "the threshold is 0", BAD_ARG(3), dat_evd_wait(EMPTY, 0, 0, &event, &nmore));
ROW(dat_evd_wait, "the threshold is negative", BAD_ARG(3),
    dat_evd_wait(EMPTY, 0, -1, &event, &nmore));
ROW(dat_evd_wait, "the threshold is above the length of the queue", BAD_ARG(3),
    dat_evd_wait(EMPTY, 0, evd_param(EMPTY).evd_qlen + 1, &event, &nmore));
ROW(dat_evd_wait, "the threshold is the length of the queue", PLAIN(TIMEOUT_EXPIRED),
    dat_evd_wait(EMPTY, 0, evd_param(EMPTY).evd_qlen, &event, &nmore));
ROW(dat_evd_wait, "the event's address is null", BAD_ARG(4),
    dat_evd_wait(EMPTY, 0, 1, NULL, &nmore));
ROW(dat_evd_wait, "the count's address is null", BAD_ARG(5),
    dat_evd_wait(EMPTY, 0, 1, &event, NULL));
ROW(dat_evd_wait, "the queue is empty, and the timeout 0", PLAIN(TIMEOUT_EXPIRED),
    dat_evd_wait(EMPTY, 0, 1, &event, &nmore));
ROW(dat_evd_wait, "the queue stays empty for a timeout of 1 ms", PLAIN(TIMEOUT_EXPIRED),
    dat_evd_wait(EMPTY, 1000, 1, &event, &nmore));

ROW_DO(dat_evd_wait, "an event is queued", DAT_SUCCESS)
{
	DAT_EVD_HANDLE evd = software_evd(3);
	DAT_RETURN ret = dat_evd_wait(evd, 0, 1, &event, &nmore);

	ck_assert_int_eq(nmore, 2);
	ck_assert_int_eq(event.event_number, DAT_SOFTWARE_EVENT);
	ck_assert_ptr_eq(event.evd_handle, evd);
	return ret;
}

ROW_DO(dat_evd_wait, "fewer events are queued than the threshold", PLAIN(TIMEOUT_EXPIRED))
{
	DAT_EVD_HANDLE evd = software_evd(2);
	DAT_RETURN ret = dat_evd_wait(evd, 1000, 3, &event, &nmore);

	ck_assert_int_eq(nmore, 2);
	ck_dat(dat_evd_dequeue(evd, &event)); /* nothing was taken */
	ck_dat(dat_evd_dequeue(evd, &event));
	return ret;
}

ROW_DO(dat_evd_wait, "as many events are queued as the threshold", DAT_SUCCESS)
{
	DAT_RETURN ret = dat_evd_wait(software_evd(3), 0, 3, &event, &nmore);

	ck_assert_int_eq(nmore, 2);
	return ret;
}

ROW_DO(dat_evd_wait, "an event comes while it waits", DAT_SUCCESS)
{
	struct waiter waiter = { .evd = software_evd(0) };

	waiter_start(&waiter);
	post_software_events(waiter.evd, 1);
	return waiter_join(&waiter);
}

ROW_DO(dat_evd_wait, "the event that reaches the threshold comes while it waits", DAT_SUCCESS)
{
	struct waiter waiter = { .evd = software_evd(0), .threshold = 3 };
	DAT_RETURN ret;

	waiter_start(&waiter);
	post_software_events(waiter.evd, 3);
	ret = waiter_join(&waiter);
	ck_assert_int_eq(waiter.nmore, 2);
	return ret;
}

ROW_DO(dat_evd_wait, "another thread waits", BAD_STATE(EVD_WAITER))
{
	struct waiter waiter = { .evd = software_evd(0) };
	DAT_RETURN ret;

	waiter_start(&waiter);
	ret = dat_evd_wait(waiter.evd, 0, 1, &event, &nmore);
	post_software_events(waiter.evd, 1);
	ck_dat(waiter_join(&waiter));
	return ret;
}

ROW(dat_evd_wait, "the EVD is unwaitable", BAD_STATE(EVD_UNWAITABLE),
    dat_evd_wait(unwaitable_evd(0), 0, 1, &event, &nmore));
ROW(dat_evd_wait, "the EVD is unwaitable, and an event is queued", BAD_STATE(EVD_UNWAITABLE),
    dat_evd_wait(unwaitable_evd(1), 0, 1, &event, &nmore));

ROW_DO(dat_evd_wait, "the EVD becomes unwaitable while it waits", BAD_STATE(EVD_UNWAITABLE))
{
	struct waiter waiter = { .evd = software_evd(0) };

	waiter_start(&waiter);
	ck_dat(dat_evd_set_unwaitable(waiter.evd));
	return waiter_join(&waiter);
}

static DAT_RETURN wait_configured(DAT_COMPLETION_FLAGS recv_flags, DAT_COUNT threshold)
{
	DAT_EP_ATTR attr = ep_attr_for(4, 4);

	attr.recv_completion_flags = recv_flags;
	return dat_evd_wait(new_pair(&attr)->client.recv_evd, 0, threshold, &event, &nmore);
}

ROW(dat_evd_wait, "its endpoint has UNSIGNALLED receives, and the threshold is 2",
    BAD_STATE(EVD_CONFIG_NOTIFY), wait_configured(DAT_COMPLETION_UNSIGNALLED_FLAG, 2));
ROW(dat_evd_wait, "its endpoint has UNSIGNALLED receives, and the threshold is 1",
    PLAIN(TIMEOUT_EXPIRED), wait_configured(DAT_COMPLETION_UNSIGNALLED_FLAG, 1));
ROW(dat_evd_wait, "its endpoint has SOLICITED_WAIT receives, and the threshold is 2",
    BAD_STATE(EVD_CONFIG_SOLICITED), wait_configured(DAT_COMPLETION_SOLICITED_WAIT_FLAG, 2));
ROW(dat_evd_wait, "its endpoint has EVD_THRESHOLD receives, and the threshold is 2",
    PLAIN(TIMEOUT_EXPIRED), wait_configured(DAT_COMPLETION_EVD_THRESHOLD_FLAG, 2));

ROW_DO(dat_evd_wait, "the EVD is freed while it waits", PLAIN(ABORT))
{
	struct waiter waiter = { .evd = software_evd(0) };

	waiter_start(&waiter);
	ck_dat(dat_evd_free(waiter.evd));
	return waiter_join(&waiter);
}

ROW_DO(dat_evd_wait, "the IA is closed abruptly while it waits", PLAIN(ABORT))
{
	struct waiter waiter = { .evd = DAT_HANDLE_NULL };
	struct side side;

	side_open_ia(&side, here->name, here->provider.is_thread_safe);
	waiter.evd = side.async_evd;
	waiter_start(&waiter);
	ck_dat(dat_ia_close(side.ia, DAT_CLOSE_ABRUPT_FLAG));
	return waiter_join(&waiter);
}

static void on_signal(int number)
{
	(void)number;
}

/* Without SA_RESTART. */
static void interrupt(struct waiter *waiter)
{
	const struct sigaction action = { .sa_handler = on_signal };
	struct sigaction before;

	ck_assert_int_eq(sigaction(SIGUSR1, &action, &before), 0);
	waiter_start(waiter);
	ck_assert_int_eq(pthread_kill(waiter->thread, SIGUSR1), 0);
	waiter_join(waiter);
	ck_assert_int_eq(sigaction(SIGUSR1, &before, NULL), 0);
}

ROW_DO(dat_evd_wait, "a signal handler runs while it waits", PLAIN(INTERRUPTED_CALL))
{
	struct waiter waiter = { .evd = software_evd(0) };

	interrupt(&waiter);
	return waiter.ret;
}

/* ---- dat_evd_dequeue ---- */

HANDLE_ROWS(dat_evd_dequeue, "the EVD", EVD, BAD_HANDLE1, dat_evd_dequeue(h, &event));
ROW(dat_evd_dequeue, "the output is null", BAD_ARG(2), dat_evd_dequeue(EMPTY, NULL));
ROW(dat_evd_dequeue, "the queue for receives is empty", DAT_QUEUE_EMPTY,
    dat_evd_dequeue(here->recv_evd, &event));
ROW(dat_evd_dequeue, "the queue for connections is empty", DAT_QUEUE_EMPTY,
    dat_evd_dequeue(here->connect_evd, &event));
ROW(dat_evd_dequeue, "the queue for asynchronous errors is empty", DAT_QUEUE_EMPTY,
    dat_evd_dequeue(here->async_evd, &event));
ROW(dat_evd_dequeue, "an event is queued", DAT_SUCCESS, dat_evd_dequeue(software_evd(1), &event));
ROW(dat_evd_dequeue, "the EVD is unwaitable", DAT_SUCCESS,
    dat_evd_dequeue(unwaitable_evd(1), &event));

ROW_DO(dat_evd_dequeue, "the EVD is disabled", DAT_SUCCESS)
{
	DAT_EVD_HANDLE evd = disabled_evd(DAT_HANDLE_NULL);

	post_software_events(evd, 1);
	return dat_evd_dequeue(evd, &event);
}

ROW_DO(dat_evd_dequeue, "a thread waits", BAD_STATE(EVD_WAITER))
{
	struct waiter waiter = { .evd = software_evd(0) };
	DAT_RETURN ret;

	waiter_start(&waiter);
	ret = dat_evd_dequeue(waiter.evd, &event);
	post_software_events(waiter.evd, 1);
	ck_dat(waiter_join(&waiter));
	return ret;
}

/* ---- dat_evd_post_se ---- */

static const DAT_EVENT software_event = {
	.event_number = DAT_SOFTWARE_EVENT,
	.event_data.software_event_data.pointer = &event,
};
static const DAT_EVENT other_event = { .event_number = DAT_CONNECTION_EVENT_ESTABLISHED };

HANDLE_ROWS(dat_evd_post_se, "the EVD", EVD, BAD_HANDLE1, dat_evd_post_se(h, &software_event));
ROW(dat_evd_post_se, "the EVD takes no software events", BAD_ARG(1),
    dat_evd_post_se(here->recv_evd, &software_event));
ROW(dat_evd_post_se, "the event is null", BAD_ARG(2), dat_evd_post_se(software_evd(0), NULL));
ROW(dat_evd_post_se, "the event is of another kind", BAD_ARG(2),
    dat_evd_post_se(software_evd(0), &other_event));

ROW_DO(dat_evd_post_se, "there is room", DAT_SUCCESS)
{
	DAT_EVD_HANDLE evd = software_evd(0);
	DAT_RETURN ret = dat_evd_post_se(evd, &software_event);

	ck_dat(dat_evd_dequeue(evd, &event));
	ck_assert_ptr_eq(event.event_data.software_event_data.pointer, &event);
	ck_assert_ptr_eq(event.evd_handle, evd);
	return ret;
}

ROW_DO(dat_evd_post_se, "the queue is full", PLAIN(QUEUE_FULL))
{
	DAT_EVD_HANDLE evd = software_evd(0);
	DAT_COUNT qlen = evd_param(evd).evd_qlen;
	DAT_RETURN ret;

	post_software_events(evd, (unsigned)qlen);
	ret = dat_evd_post_se(evd, &software_event);
	ck_dat(dat_evd_dequeue(evd, &event));
	ck_dat(dat_evd_post_se(evd, &software_event));
	return ret;
}

ROW_DO(dat_evd_post_se, "the EVD has a CNO, which is triggered", DAT_SUCCESS)
{
	DAT_CNO_HANDLE cno = new_cno();
	DAT_EVD_HANDLE evd = software_evd(0), fired = DAT_HANDLE_NULL;
	DAT_RETURN ret;

	ck_dat(dat_evd_modify_cno(evd, cno));
	ret = dat_evd_post_se(evd, &software_event);
	ck_dat(dat_cno_wait(cno, 0, &fired));
	ck_assert_ptr_eq(fired, evd);
	return ret;
}

/* ---- dat_evd_resize ---- */

static DAT_COUNT longest(void)
{
	return here->attr.max_evd_qlen < 100000 ? here->attr.max_evd_qlen : 100000; /* memory */
}

HANDLE_ROWS(dat_evd_resize, "the EVD", EVD, BAD_HANDLE1, dat_evd_resize(h, 16));
ROW(dat_evd_resize, "the new length is 0", BAD_ARG(2), dat_evd_resize(software_evd(0), 0));
ROW(dat_evd_resize, "the new length is negative", BAD_ARG(2), dat_evd_resize(software_evd(0), -1));
ROW(dat_evd_resize, "the new length is above max_evd_qlen", BAD_ARG(2),
    dat_evd_resize(software_evd(0), here->attr.max_evd_qlen + 1));
ROW(dat_evd_resize, "the new length is the old one", DAT_SUCCESS,
    dat_evd_resize(here->recv_evd, SIDE_QLEN));
ROW(dat_evd_resize, "the new length is below the number of events", BAD_STATE_PLAIN,
    dat_evd_resize(software_evd(3), 2));
ROW(dat_evd_resize, "the new length is the number of events", DAT_SUCCESS,
    dat_evd_resize(software_evd(3), 3));
ROW(dat_evd_resize, "the EVD's asynchronous errors get more room", DAT_SUCCESS,
    dat_evd_resize(here->async_evd, 32));

ROW_DO(dat_evd_resize, "events are queued, and stay", DAT_SUCCESS)
{
	DAT_EVD_HANDLE evd = software_evd(8);
	DAT_RETURN ret = dat_evd_resize(evd, 64);

	ck_assert_int_ge(evd_param(evd).evd_qlen, 64);
	for (unsigned i = 0; i < 8; i++)
		ck_dat(dat_evd_dequeue(evd, &event));
	return ret;
}

ROW_DO(dat_evd_resize, "a thread waits", BAD_STATE(EVD_WAITER))
{
	struct waiter waiter = { .evd = software_evd(0) };
	DAT_RETURN ret;

	waiter_start(&waiter);
	ret = dat_evd_resize(waiter.evd, 16);
	post_software_events(waiter.evd, 1);
	ck_dat(waiter_join(&waiter));
	return ret;
}

ROW(dat_evd_resize, "an endpoint uses it, and it becomes longer", DAT_SUCCESS,
    dat_evd_resize(new_connection(NULL)->client.recv_evd, 4096));
ROW(dat_evd_resize, "it becomes as long as the device has", DAT_SUCCESS,
    dat_evd_resize(new_evd(8, DAT_EVD_DTO_FLAG), longest()),
    .on = { { "siw", NO_RESOURCE(TEVD), "siw cannot resize a completion queue" },
	    { "ofi-rxe", NO_RESOURCE(TEVD), "libfabric cannot resize a completion queue" } });
ROW(dat_evd_resize, "an endpoint uses it, and it becomes shorter", DAT_SUCCESS,
    dat_evd_resize(new_connection(NULL)->client.recv_evd, 32));

/* ==== notification objects ==== */

/* ---- dat_cno_create ---- */

static DAT_CNO_HANDLE cno_out;
static DAT_EVD_HANDLE _Atomic fired_evd;
static _Atomic unsigned agent_calls;

static void agent_func(DAT_PVOID data, DAT_EVD_HANDLE evd)
{
	ck_assert_ptr_eq(data, (void *)&agent_calls);
	fired_evd = evd;
	agent_calls++;
}

static const DAT_OS_WAIT_PROXY_AGENT agent = { (void *)&agent_calls, agent_func };

/* It may run on a thread of the provider. */
static void agent_called(void)
{
	while (agent_calls == 0)
		sched_yield();
}

static DAT_RETURN create_cno(DAT_OS_WAIT_PROXY_AGENT with)
{
	DAT_RETURN ret = dat_cno_create(here->ia, with, &cno_out);

	if (ret == DAT_SUCCESS)
		keep(cno_out);
	return ret;
}

HANDLE_ROWS(dat_cno_create, "the IA", IA, BAD_HANDLE(IA),
	    dat_cno_create(h, DAT_OS_WAIT_PROXY_AGENT_NULL, &unwritten));
ROW(dat_cno_create, "the output is null", BAD_ARG(3),
    dat_cno_create(here->ia, DAT_OS_WAIT_PROXY_AGENT_NULL, NULL));
ROW(dat_cno_create, "it has no agent", DAT_SUCCESS, create_cno(DAT_OS_WAIT_PROXY_AGENT_NULL));
ROW(dat_cno_create, "it has an agent", DAT_SUCCESS, create_cno(agent));
ROW(dat_cno_create, "it has instance data, but no function", DAT_SUCCESS,
    create_cno((DAT_OS_WAIT_PROXY_AGENT){ (void *)&agent_calls, NULL }));

/* ---- dat_cno_free ---- */

static DAT_EVD_HANDLE evd_with(DAT_CNO_HANDLE cno)
{
	DAT_EVD_HANDLE evd = software_evd(0);

	ck_dat(dat_evd_modify_cno(evd, cno));
	return evd;
}

HANDLE_ROWS(dat_cno_free, "the CNO", CNO, BAD_HANDLE(CNO), dat_cno_free(h));
ROW(dat_cno_free, "nothing uses it", DAT_SUCCESS, dat_cno_free(new_cno()));

ROW_DO(dat_cno_free, "an EVD uses it", BAD_STATE(CNO_IN_USE))
{
	DAT_CNO_HANDLE cno = new_cno();

	evd_with(cno);
	return dat_cno_free(cno);
}

ROW_DO(dat_cno_free, "a thread waits on it", BAD_STATE(CNO_IN_USE))
{
	struct waiter waiter = { .cno = new_cno() };
	DAT_RETURN ret;

	waiter_start(&waiter);
	ret = dat_cno_free(waiter.cno);
	post_software_events(evd_with(waiter.cno), 1);
	ck_dat(waiter_join(&waiter));
	return ret;
}

/* ---- dat_cno_wait ---- */

static DAT_RETURN wait_empty(DAT_TIMEOUT timeout)
{
	DAT_EVD_HANDLE evd = here->recv_evd;
	DAT_RETURN ret = dat_cno_wait(new_cno(), timeout, &evd);

	ck_assert_ptr_eq(evd, DAT_HANDLE_NULL);
	return ret;
}

HANDLE_ROWS(dat_cno_wait, "the CNO", CNO, BAD_HANDLE(CNO), dat_cno_wait(h, 0, &unwritten));
ROW(dat_cno_wait, "the output is null", BAD_ARG(3), dat_cno_wait(new_cno(), 0, NULL));
ROW(dat_cno_wait, "it was not triggered, and the timeout is 0", DAT_QUEUE_EMPTY, wait_empty(0));
ROW(dat_cno_wait, "it is not triggered for a timeout of 1 ms", DAT_QUEUE_EMPTY, wait_empty(1000));

ROW_DO(dat_cno_wait, "it was triggered twice before, which is one notification", DAT_SUCCESS)
{
	DAT_CNO_HANDLE cno = new_cno();
	DAT_EVD_HANDLE evd = evd_with(cno), fired = DAT_HANDLE_NULL;
	DAT_RETURN ret;

	post_software_events(evd, 2);
	ret = dat_cno_wait(cno, 0, &fired);
	ck_assert_ptr_eq(fired, evd);
	ck_dat_is(dat_cno_wait(cno, 0, &fired), DAT_QUEUE_EMPTY);
	return ret;
}

ROW_DO(dat_cno_wait, "it is triggered while it waits", DAT_SUCCESS)
{
	struct waiter waiter = { .cno = new_cno() };
	DAT_EVD_HANDLE evd = evd_with(waiter.cno);
	DAT_RETURN ret;

	waiter_start(&waiter);
	post_software_events(evd, 1);
	ret = waiter_join(&waiter);
	ck_assert_ptr_eq(waiter.triggered, evd);
	return ret;
}

ROW_DO(dat_cno_wait, "its last EVD is freed while it waits", DAT_SUCCESS)
{
	struct waiter waiter = { .cno = new_cno() };
	DAT_EVD_HANDLE evd = evd_with(waiter.cno);
	DAT_RETURN ret;

	waiter_start(&waiter);
	ck_dat(dat_evd_free(evd));
	ret = waiter_join(&waiter);
	ck_assert_ptr_eq(waiter.triggered, DAT_HANDLE_NULL);
	return ret;
}

ROW_DO(dat_cno_wait, "the IA is closed abruptly while it waits", DAT_SUCCESS)
{
	struct waiter waiter = { .evd = DAT_HANDLE_NULL };
	struct side side;
	DAT_RETURN ret;

	side_open_ia(&side, here->name, here->provider.is_thread_safe);
	ck_dat(dat_cno_create(side.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &waiter.cno));
	waiter_start(&waiter);
	ck_dat(dat_ia_close(side.ia, DAT_CLOSE_ABRUPT_FLAG));
	ret = waiter_join(&waiter);
	ck_assert_ptr_eq(waiter.triggered, DAT_HANDLE_NULL);
	return ret;
}

ROW_DO(dat_cno_wait, "a signal handler runs while it waits", PLAIN(INTERRUPTED_CALL))
{
	struct waiter waiter = { .cno = new_cno() };

	interrupt(&waiter);
	return waiter.ret;
}

ROW_DO(dat_cno_wait, "a receive completes", DAT_SUCCESS)
{
	struct pair *pair = new_connection(NULL);
	DAT_CNO_HANDLE cno = new_cno();
	DAT_EVD_HANDLE fired = DAT_HANDLE_NULL;
	DAT_RETURN ret;

	ck_dat(dat_evd_modify_cno(pair->client.recv_evd, cno));
	post_recv(pair->client.ep, 1, segment(&pair->client, 0, 8));
	post_send(pair->server.ep, 2, segment(&pair->server, 0, 8), DAT_COMPLETION_DEFAULT_FLAG);
	ret = dat_cno_wait(cno, TIME_LIMIT, &fired);
	ck_assert_ptr_eq(fired, pair->client.recv_evd);
	ck_dat(dat_evd_modify_cno(pair->client.recv_evd, DAT_HANDLE_NULL));
	return ret;
}

/* ---- dat_cno_modify_agent ---- */

HANDLE_ROWS(dat_cno_modify_agent, "the CNO", CNO, BAD_HANDLE(CNO), dat_cno_modify_agent(h, agent));

ROW_DO(dat_cno_modify_agent, "an agent, which the next trigger calls once", DAT_SUCCESS)
{
	DAT_CNO_HANDLE cno = new_cno();
	DAT_EVD_HANDLE evd = evd_with(cno);
	DAT_RETURN ret = dat_cno_modify_agent(cno, agent);

	agent_calls = 0;
	post_software_events(evd, 1);
	agent_called();
	post_software_events(evd, 1);
	ck_assert_uint_eq(agent_calls, 1);
	ck_assert_ptr_eq(fired_evd, evd);
	return ret;
}

ROW_DO(dat_cno_modify_agent, "no agent", DAT_SUCCESS)
{
	DAT_CNO_HANDLE cno = new_cno();
	DAT_EVD_HANDLE evd = evd_with(cno);
	DAT_RETURN ret;

	agent_calls = 0;
	ck_dat(dat_cno_modify_agent(cno, agent));
	ret = dat_cno_modify_agent(cno, DAT_OS_WAIT_PROXY_AGENT_NULL);
	post_software_events(evd, 1);
	ck_assert_uint_eq(agent_calls, 0);
	return ret;
}

/* ---- dat_cno_query ---- */

static DAT_CNO_PARAM cno_param;

#if DAT_EDITION == 2
#define AGENT_OF(param) (param).proxy.agent
#else
#define AGENT_OF(param) (param).agent
#endif

HANDLE_ROWS(dat_cno_query, "the CNO", CNO, BAD_HANDLE(CNO),
	    dat_cno_query(h, DAT_CNO_FIELD_ALL, &cno_param));
ROW(dat_cno_query, "the mask has an unknown bit, which is ignored", DAT_SUCCESS,
    dat_cno_query(new_cno(), (DAT_CNO_PARAM_MASK)(DAT_CNO_FIELD_ALL + 1), &cno_param));
ROW(dat_cno_query, "the output is null", BAD_ARG(3),
    dat_cno_query(new_cno(), DAT_CNO_FIELD_ALL, NULL));
ROW(dat_cno_query, "the mask is 0", DAT_SUCCESS,
    dat_cno_query(new_cno(), (DAT_CNO_PARAM_MASK)0, &cno_param));

ROW_DO(dat_cno_query, "all fields", DAT_SUCCESS)
{
	DAT_RETURN ret;

	ck_dat(create_cno(agent));
	ret = dat_cno_query(cno_out, DAT_CNO_FIELD_ALL, &cno_param);
	ck_assert_ptr_eq(cno_param.ia_handle, here->ia);
	ck_assert_ptr_eq(AGENT_OF(cno_param).instance_data, (void *)&agent_calls);
	ck_assert(AGENT_OF(cno_param).proxy_agent_func == agent_func);
	return ret;
}

ROW_DO(dat_cno_query, "its agent was called", DAT_SUCCESS)
{
	DAT_RETURN ret;

	ck_dat(create_cno(agent));
	agent_calls = 0;
	post_software_events(evd_with(cno_out), 1);
	agent_called();
	ret = dat_cno_query(cno_out, DAT_CNO_FIELD_ALL, &cno_param);
	ck_assert(AGENT_OF(cno_param).proxy_agent_func == NULL);
	return ret;
}
