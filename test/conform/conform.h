/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of conform share. */
#ifndef CONFORM_H
#define CONFORM_H

#include "../consumer/consumer.h"

void add_habit_cases(TCase *cases);
void add_code_cases(TCase *cases);
void add_limit_cases(TCase *cases);
void add_memory_cases(TCase *cases);
void add_sheet_cases(TCase *cases);
void add_log_cases(TCase *cases);
void add_window_cases(TCase *cases);

#endif
