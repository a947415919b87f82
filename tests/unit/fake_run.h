// SPDX-License-Identifier: Apache-2.0
//
// fake_run: a run that is done, without keeper, box or loop, for what reads one: result_judge() and
// result_json().  Used by tests/unit and tests/fuzz.  Large, so it is meant to be static.

#ifndef CONSTRICTOR_FAKE_RUN_H
#define CONSTRICTOR_FAKE_RUN_H

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

#include "run/result.h"
#include "json/dump.h"

struct fake_run {
    struct caps caps;
    struct interp interp;
    struct keeper_facts facts;
    struct gate gate;
    struct run run;
};

static inline void fake_run_init(struct fake_run *f)
{
    *f = (struct fake_run){.run = {.state = RUN_DONE}};
    for (int i = 0; i < LAYER_MAX; i++)
        f->caps.layer[i].state = LAYER_LIVE;
    f->caps.cgroups.driver = &cgroup2_driver;
    snprintf(f->interp.executable, sizeof f->interp.executable, "/usr/bin/python3");
    snprintf(f->interp.version, sizeof f->interp.version, "3.11.2");
    f->facts = (struct keeper_facts){
        .caps = &f->caps,
        .interp = &f->interp,
        .zygote_report = "{\"preloaded\": [\"json\"], \"failed\": []}",
    };
    f->gate.facts = &f->facts;
    struct run *r = &f->run;
    r->gate = &f->gate;
    r->has_ended = true;
    r->ended.usage = (struct wire_usage){.cpu_user_us = 1000,
                                         .cpu_system_us = 500,
                                         .peak_memory_bytes = 8 << 20,
                                         .peak_processes = 1,
                                         .scratch_free_bytes = 1 << 20,
                                         .scratch_free_inodes = 1000};
    r->request.limits = (struct wire_limits){.memory_bytes = 64 << 20,
                                             .scratch_bytes = 16 << 20,
                                             .file_bytes = 8 << 20,
                                             .processes = 32,
                                             .inodes = 4096,
                                             .open_files = 128};
    r->request.wall_ms = 1500;
    r->request.cpu_ms = 2000;
    r->request.output_bytes = 1 << 20;
    r->t_begin_us = 1000;
    r->t_box_us = 2000;
    r->t_end_us = 5000;
    for (int i = 0; i < RUN_STREAMS; i++)
        r->output[i] = evbuffer_new();
}

static inline void fake_run_free(struct fake_run *f)
{
    for (int i = 0; i < RUN_STREAMS; i++)
        if (f->run.output[i])
            evbuffer_free(f->run.output[i]);
    json_decref(f->run.result);
    f->run.result = NULL;
    dump_forget(f->gate.isolation);
    dump_forget(f->gate.interpreter);
    json_decref(f->gate.isolation);
    json_decref(f->gate.interpreter);
    f->gate.isolation = f->gate.interpreter = NULL;
}

// As run.c takes a RESULT: an object, or the run is judged as a broken box.
static inline void fake_run_result(struct fake_run *f, const char *json, size_t length)
{
    json_decref(f->run.result);
    f->run.result = json_loadb(json, length, JSON_ALLOW_NUL, NULL);
    f->run.ended.end = json_is_object(f->run.result) ? END_DONE : END_PROTOCOL;
}

#endif
